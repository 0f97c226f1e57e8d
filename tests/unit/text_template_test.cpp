#include <fstream>
#include <nlohmann/json.hpp>

#include "text/chat_template.h"
#include "text/template_json.h"
#include "unit/import_support.h"

namespace gyrus::test {
namespace {

// Rendered by Jinja itself (tests/data/text/make_templates.py).
TEST(ChatTemplate, RendersAsJinjaDoes) {
  std::ifstream file(std::string(GYRUS_SOURCE_DIR) + "/tests/data/text/templates.json");
  const nlohmann::ordered_json cases = nlohmann::ordered_json::parse(file);
  ASSERT_GT(cases.size(), 70U);
  for (const nlohmann::ordered_json& one : cases) {
    const std::string text = one["template"].get<std::string>();
    SCOPED_TRACE(text + "\n" + one["variables"].dump());
    const ChatTemplate chat(text);
    const TemplateValue variables = to_template_value(one["variables"]);
    if (one.contains("fails")) {
      expect_error(ErrorCode::InvalidInput, "[chat template] line ", [&] { chat.render(variables); });
      continue;
    }
    EXPECT_EQ(chat.render(variables), one["expected"].get<std::string>());
  }
}

TEST(ChatTemplate, MakesPrompts) {
  const ChatTemplate chat(
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}");
  EXPECT_EQ(chat.render({{"user", "a"}, {"assistant", "b"}}, "<s>", "</s>"), "<s><user>a</s><assistant>b</s>");
}

TEST(ChatTemplate, RefusesByName) {
  const auto refused = [](const std::string& part, const std::string& text, ErrorCode code = ErrorCode::Unsupported) {
    SCOPED_TRACE(text);
    expect_error(code, part, [&] { ChatTemplate{text}; });
  };
  refused("line 2: the tag 'include' is not supported", "\n{% include 'x' %}");
  refused("the filter 'wordwrap' is not supported", "{{ a | wordwrap }}");
  refused("the test 'callable' is not supported", "{{ a is callable }}");
  refused("the method 'format' is not supported", "{{ 'a'.format(1) }}");
  refused("the function 'open' is not supported", "{{ open('/etc/passwd') }}");
  refused("the method '__subclasses__' is not supported", "{{ ''.__class__.__subclasses__() }}");
  refused("powers are not supported", "{{ 2 ** 9 }}");
  refused("nested deeper", "{{ " + std::string(300, '(') + "1" + std::string(300, ')') + " }}");
  refused("nested deeper", "{{ " + std::string(300, '[') + std::string(300, ']') + " }}");
  refused("parts in a row", [] {
    std::string sum = "{{ 1";
    for (int i = 0; i < 10000; ++i) sum += "+1";
    return sum + " }}";
  }());
  for (const char* text : {"{{ a", "{% if a %}", "{% endif %}x{", "{{ }}", "{{ a b }}", "{# a", "{{ 'a }}", "{{ a. }}",
                           "{% if %}{% endif %}", "{% for a %}{% endfor %}", "{% set %}", "{{ [1 }}", "{{ @ }}",
                           "{{ {'a'} }}", "{{ '\\u12' }}"}) {
    SCOPED_TRACE(text);
    EXPECT_THROW(ChatTemplate{text}, Error);
  }
}

TEST(ChatTemplate, ComesToAnEnd) {
  const auto fails = [](const std::string& part, const std::string& text) {
    SCOPED_TRACE(text);
    expect_error(ErrorCode::InvalidInput, part, [&] { ChatTemplate(text).render(TemplateValue::map({})); });
  };
  fails("does not come to an end",
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ 1 }}{% endfor %}{% endfor %}");
  fails("the range is too long", "{{ range(100001) | length }}");
  fails("too deep", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  fails("too long",
        "{% set n = namespace(x='abcdefgh') %}{% for a in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}");
  const auto again = [](const std::string& start, const std::string& next) {
    return "{% set n = namespace(x=" + start + ") %}{% for a in range(99999) %}{% set n.x = " + next +
           " %}{% endfor %}{{ n.x }}";
  };
  fails("too large", again("[1]", "n.x + n.x"));
  fails("too large", again("[1]", "[n.x, n.x]"));
  fails("too large", again("{'a': 1}", "{'a': n.x, 'b': n.x}"));
  fails("too deep", again("[]", "[n.x]"));
  fails("too long", again("'aaaa'", "n.x | replace('a', n.x)"));
  fails("too long", again("'a'", "range(1000) | join(n.x)"));
  fails("a namespace inside", "{% set n = namespace() %}{% set n.n = n %}{{ n }}");
  fails("a namespace inside", "{% set n = namespace() %}{{ [n] }}");
  fails("range", "{{ range(0 - 9223372036854775807 - 1, 2) }}");
  fails("range", "{{ range(1, 2, 9223372036854775807) }}");
  fails("beyond 64 bits", "{{ 9223372036854775807 + 1 }}");
  fails("no namespace", "{% set n = {} %}{% set n.x = 1 %}");
  fails("the template refuses: no 2", "{{ raise_exception('no\n2') }}");
}

}  // namespace
}  // namespace gyrus::test
