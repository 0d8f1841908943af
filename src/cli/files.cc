// Helpers of the verbs: reading files and graphs, printing. Tested by tests/cli_test.py.
#include <fmt/format.h>

#include <cstdio>

#include "src/cli/verbs.h"
#include "src/ir/text.h"

namespace tenon::cli {

Result<std::string> read_file(const std::string& path) {
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (!file) return system_error(path);
  std::string text;
  char block[1 << 16];
  size_t n;
  while ((n = std::fread(block, 1, sizeof block, file)) > 0) text.append(block, n);
  const bool failed = std::ferror(file) != 0;
  const Status status = failed ? system_error(path) : Status();
  if (file != stdin) std::fclose(file);
  if (failed) return status;
  return text;
}

Result<Model> read_model(const std::string& path, std::vector<std::string>& inputs,
                         const std::string& params) {
  if (path.ends_with(".json")) return read_symbol(path, inputs, params);
  if (!params.empty()) return invalid("--params belongs to a symbol, a file that ends with .json: " + path);
  TENON_ASSIGN(std::string text, read_file(path));
  auto graph = parse_graph(text);
  if (graph.ok()) return Model{std::move(*graph), {}};
  const std::string where = (path == "-" ? "stdin" : path) + ":";
  constexpr int kMostLines = 5;
  std::string message = where;
  int lines = 1;
  for (char c : graph.status().message()) {
    lines += c == '\n';
    if (lines > kMostLines) continue;
    message += c;
    if (c == '\n') message += where;
  }
  if (lines > kMostLines) message += fmt::format("\nand {} more", lines - kMostLines);
  return Status(graph.status().code(), message);
}

int fail(const Status& status) {
  std::fprintf(stderr, "tenon: %s: %s\n", code_name(status.code()), status.message().c_str());
  return kFailed;
}

int misuse(const std::string& sentence) {
  std::fprintf(stderr, "tenon: %s\n", sentence.c_str());
  return kUsage;
}

void print_line(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

}  // namespace tenon::cli
