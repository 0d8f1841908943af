// tenon bench compare: two files of `tenon bench --json`, or of Google Benchmark with repetitions. Tested by tests/bench_test.py.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "src/cli/bench/bench.h"
#include "src/cli/verbs.h"

namespace tenon::cli {
namespace {

struct Case {
  std::vector<double> times;  // microseconds of the repetitions
  double bytes = 0;           // of inputs and outputs; 0: not known
};
struct Results {
  std::string machine;
  std::map<std::string, Case> cases;
};

Result<Results> read_results(const std::string& path) {
  using Json = nlohmann::json;
  TENON_ASSIGN(const std::string text, read_file(path));
  const Json file = Json::parse(text, nullptr, false);
  const auto list = file.is_object() ? file.find("benchmarks") : file.end();
  if (!file.is_object() || list == file.end() || !list->is_array())
    return invalid(path + ": not a file of tenon bench --json");
  Results results;
  if (const auto context = file.find("context"); context != file.end() && context->is_object())
    results.machine = context->value("machine", "");
  for (const Json& entry : *list) {
    if (!entry.is_object()) continue;
    if (entry.contains("bytes") && entry["bytes"].is_number())
      results.cases[entry.value("run_name", "")].bytes = entry["bytes"].get<double>();
    if (entry.value("run_type", "") != "iteration") continue;
    const auto name = entry.find("run_name"), time = entry.find("real_time");
    if (name == entry.end() || !name->is_string() || time == entry.end() || !time->is_number())
      return invalid(path + ": an entry has no run_name or no real_time");
    const std::string unit = entry.value("time_unit", "ns");
    const double scale = unit == "s" ? 1e6 : unit == "ms" ? 1e3 : unit == "us" ? 1 : 1e-3;
    results.cases[name->get<std::string>()].times.push_back(time->get<double>() * scale);
  }
  std::erase_if(results.cases, [](const auto& c) { return c.second.times.empty(); });
  return results;
}

}  // namespace

int bench_compare(const CompareArgs& args) {
  constexpr size_t kFewRounds = 6;  // fewer are never significant
  const auto first = read_results(args.before), second = read_results(args.after);
  if (!first.ok()) return fail(first.status());
  if (!second.ok()) return fail(second.status());
  const std::map<std::string, Case>&before = first->cases, &after = second->cases;
  if (first->machine != second->machine)
    print_line("the files are of different machines: " + first->machine + "; " + second->machine);
  size_t width = 4;
  for (const auto& [name, c] : after) width = std::max(width, name.size());
  int slower = 0, shared = 0;
  print_line(
      fmt::format("{:<{}} {:>12} {:>12} {:>8} {:>8}", "case", width, "before us", "after us", "change", "p"));
  for (const auto& [name, c] : after) {
    const auto old = before.find(name);
    if (old == before.end()) {
      print_line(fmt::format("{:<{}} {:>12} {:>12.2f}", name, width, "-", median(c.times)));
      continue;
    }
    const double was = median(old->second.times), is = median(c.times), change = is / was - 1;
    if (old->second.bytes != c.bytes) {
      print_line(fmt::format("{:<{}} {:>12.2f} {:>12.2f}  has other sizes", name, width, was, is));
      continue;
    }
    ++shared;
    const double p = mann_whitney(old->second.times, c.times);
    const bool far = change * 100 > args.tolerance, regression = far && p < 0.01;
    const bool few = std::min(old->second.times.size(), c.times.size()) < kFewRounds;
    slower += regression;
    print_line(fmt::format("{:<{}} {:>12.2f} {:>12.2f} {:>+7.1f}% {:>8.4f}{}", name, width, was, is,
                           change * 100, p,
                           regression   ? "  slower"
                           : far && few ? "  too few rounds to tell"
                                        : ""));
  }
  for (const auto& [name, c] : before)
    if (!after.contains(name))
      print_line(fmt::format("{:<{}} {:>12.2f} {:>12}", name, width, median(c.times), "-"));
  if (shared == 0) return fail(invalid("the files have no case in common"));
  print_line(fmt::format("{} of {} cases are slower by more than {} %", slower, shared, args.tolerance));
  return slower > 0 ? kFailed : kDone;
}

}  // namespace tenon::cli
