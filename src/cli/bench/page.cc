// The page of `tenon bench --html`: page.html, which draws the results in the browser, with the results in place of its mark. CMake embeds
// page.html as bench_page_template(). Tested by tests/bench_test.py.
#include "src/cli/bench/page.h"

#include <nlohmann/json.hpp>

#include "src/cli/bench/bench.h"

namespace tenon::cli {

Result<std::string> page_of(const std::string& json) {
  constexpr std::string_view kMark = "{\"benchmarks\": []}";
  const auto results = nlohmann::ordered_json::parse(json, nullptr, false);
  if (!results.is_object() || !results.contains("benchmarks") || !results["benchmarks"].is_array())
    return invalid("not a file of tenon bench --json");
  std::string text = results.dump();
  for (size_t at = 0; (at = text.find('<', at)) != text.npos;)
    text.replace(at, 1, "\\u003c");  // so that no text ends the script
  std::string page(bench_page_template());
  page.replace(page.find(kMark), kMark.size(), text);
  return page;
}

}  // namespace tenon::cli
