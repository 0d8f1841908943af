// tenon bench compare: two files of `tenon bench --json`, or of Google Benchmark with repetitions. Tested by tests/bench_test.py.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "src/cli/bench/bench.h"
#include "src/cli/verbs.h"

namespace tenon::cli {
namespace {

// Microseconds of the repetitions, by case.
Result<std::map<std::string, std::vector<double>>> read_times(const std::string& path) {
  using Json = nlohmann::json;
  TENON_ASSIGN(const std::string text, read_file(path));
  const Json file = Json::parse(text, nullptr, false);
  const auto list = file.is_object() ? file.find("benchmarks") : file.end();
  if (!file.is_object() || list == file.end() || !list->is_array())
    return invalid(path + ": not a file of tenon bench --json");
  std::map<std::string, std::vector<double>> times;
  for (const Json& entry : *list) {
    if (!entry.is_object() || entry.value("run_type", "") != "iteration") continue;
    const auto name = entry.find("run_name"), time = entry.find("real_time");
    if (name == entry.end() || !name->is_string() || time == entry.end() || !time->is_number())
      return invalid(path + ": an entry has no run_name or no real_time");
    const std::string unit = entry.value("time_unit", "ns");
    const double scale = unit == "s" ? 1e6 : unit == "ms" ? 1e3 : unit == "us" ? 1 : 1e-3;
    times[name->get<std::string>()].push_back(time->get<double>() * scale);
  }
  return times;
}

}  // namespace

int bench_compare(const CompareArgs& args) {
  const auto before = read_times(args.before), after = read_times(args.after);
  if (!before.ok()) return fail(before.status());
  if (!after.ok()) return fail(after.status());
  size_t width = 4;
  for (const auto& [name, times] : *after) width = std::max(width, name.size());
  int slower = 0, shared = 0;
  print_line(
      fmt::format("{:<{}} {:>12} {:>12} {:>8} {:>8}", "case", width, "before us", "after us", "change", "p"));
  for (const auto& [name, times] : *after) {
    const auto old = before->find(name);
    if (old == before->end()) {
      print_line(fmt::format("{:<{}} {:>12} {:>12.2f}", name, width, "-", median(times)));
      continue;
    }
    ++shared;
    const double change = median(times) / median(old->second) - 1, p = mann_whitney(old->second, times);
    const bool regression = change * 100 > args.tolerance && p < 0.01;
    slower += regression;
    print_line(fmt::format("{:<{}} {:>12.2f} {:>12.2f} {:>+7.1f}% {:>8.4f}{}", name, width,
                           median(old->second), median(times), change * 100, p,
                           regression ? "  slower" : ""));
  }
  for (const auto& [name, times] : *before)
    if (!after->contains(name))
      print_line(fmt::format("{:<{}} {:>12.2f} {:>12}", name, width, median(times), "-"));
  if (shared == 0) return fail(invalid("the files have no case in common"));
  print_line(fmt::format("{} of {} cases are slower by more than {} %", slower, shared, args.tolerance));
  return slower > 0 ? kFailed : kDone;
}

}  // namespace tenon::cli
