#include <charconv>
#include <optional>

#include "commands.h"
#include "common.h"
#include "core/error.h"
#include "core/files.h"
#include "import/text_model_file.h"
#include "text/tokenizer.h"

namespace gyrus::cli {
namespace {

struct TokenizeArguments {
  std::string model, file = "-";
  std::optional<std::string> text;
  bool decode = false, special = false, begin = false;
};

std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> out;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at == ' ' || *at == ',' || (*at >= '\t' && *at <= '\r')) {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [after, failed] = std::from_chars(at, end, id);
    if (failed != std::errc()) {
      const std::string_view rest(at, std::min<size_t>(static_cast<size_t>(end - at), 20));
      fail(ErrorCode::InvalidInput, "--decode", "no number of a token: ", in_quotes(rest));
    }
    out.push_back(id);
    at = after;
  }
  return out;
}

void run(const TokenizeArguments& arguments) {
  const Tokenizer tokenizer{TextModelFile(arguments.model).head()};
  std::string text;
  if (arguments.text) {
    text = *arguments.text;
  } else {
    const std::vector<std::byte> bytes = read_file(arguments.file, &interrupted());
    text = std::string(text_of(bytes));
  }
  if (arguments.decode) return print_out(tokenizer.decode(parse_ids(text), arguments.special));
  std::string line;
  for (const int32_t id : tokenizer.encode(text, arguments.special, arguments.begin))
    line += (line.empty() ? "" : " ") + std::to_string(id);
  print_out(line + "\n");
}

}  // namespace

void add_tokenize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenize", "Text to the tokens of a language model, and back");
  auto arguments = std::make_shared<TokenizeArguments>();
  command->add_option("model", arguments->model, "A GGUF file, or a folder with config.json and safetensors")
      ->required()
      ->type_name("MODEL");
  CLI::Option* text = command->add_option("text", arguments->text, "The text, or the ids; else that of --file");
  text->type_name("TEXT");
  command->add_option("--file", arguments->file, "Read the text from a file, as it is; - is standard input")
      ->type_name("FILE")
      ->capture_default_str()
      ->excludes(text);
  command->add_flag("--decode", arguments->decode, "The other way round: ids to text, without anything added");
  command->add_flag("--special", arguments->special,
                    "Texts of control tokens are those tokens; with --decode, print them");
  command->add_flag("--begin", arguments->begin,
                    "With the tokens that begin and end a text, where the model wants them");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace gyrus::cli
