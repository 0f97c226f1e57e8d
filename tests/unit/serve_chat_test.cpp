// gyrus chat over a model that needs no GPU.
#include <gtest/gtest.h>

#include <sstream>

#include "chat.h"
#include "support/stub_text_service.h"

namespace gyrus::test {
namespace {

struct Talk {
  StubTextService service;
  std::string told;
  std::string operator()(const std::string& lines, cli::ChatOptions options = {}) {
    std::ostringstream out;
    std::istringstream in(lines);
    options.prompts = false;
    cli::Chat chat(service, options, out, [this](const std::string& line) { told += line + "\n"; });
    chat.run(in);
    return out.str();
  }
};

TEST(Chat, AnswersLines) {
  Talk talk;
  EXPECT_EQ(talk("hello\n\nworld"), "user: hello\nuser: world\n");
  EXPECT_NE(talk.told.find("11 tokens, the first after"), std::string::npos) << talk.told;
  EXPECT_NE(talk.told.find("tokens/s\n"), std::string::npos) << talk.told;
}

TEST(Chat, KnowsItsCommands) {
  Talk talk;
  EXPECT_EQ(talk("/system brief\na\n/history\n/undo\n/history\n/quit\nb"),
            "user: a\nsystem: brief\nuser: a\nassistant: user: a\nsystem: brief\n");
  EXPECT_EQ(talk("a\n/clear\n/history"), "user: a\n");
  EXPECT_EQ(talk("a\n/retry\n/history"), "user: a\nuser: a\nuser: a\nassistant: user: a\n");
  EXPECT_EQ(talk("/tokens 3\nabcdef"), "use\n");
  EXPECT_NE(talk.told.find("cut at 3 tokens"), std::string::npos) << talk.told;
  EXPECT_EQ(talk("a\r\n/quit\r\nb"), "user: a\n");  // lines of Windows
  EXPECT_NE(talk("/help").find("/temperature"), std::string::npos);
  talk.told.clear();
  talk("/nothing\n/tokens x\n/temperature 1001\n/temperature -1\n/retry\n");
  EXPECT_EQ(talk.told,
            "/nothing is no command; /help lists them\n/tokens wants a number from 0 to 1000000\n"
            "/temperature wants a number from 0 to 1000\n/temperature wants a number from 0 to 1000\n"
            "there is no question yet\n");
}

TEST(Chat, GoesOnWhereItCan) {
  Talk talk;
  talk.service.tokens = 40;
  EXPECT_EQ(talk(std::string(100, 'x') + "\nok"), "user: ok\n");
  talk(std::string(20, 'x'));
  EXPECT_NE(talk.told.find("no more room"), std::string::npos) << talk.told;
  EXPECT_NE(talk.told.find("the context 40; /clear or /undo makes room"), std::string::npos) << talk.told;
  talk.service.chat = "{{ raise_exception('no') }}";
  talk.told.clear();
  EXPECT_EQ(talk("a\nb"), "");
  EXPECT_EQ(talk.told,
            "[chat template] line 1: the template refuses: no\n[chat template] line 1: the template refuses: no\n");
  talk.service.chat = "";
  EXPECT_THROW(talk("a"), Error);
  talk.service.chat = StubTextService().chat;
  EXPECT_THROW(talk("fail"), Error);
}

}  // namespace
}  // namespace gyrus::test
