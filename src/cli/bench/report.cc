// The table, the advice and the JSON of `tenon bench`. Tested by tests/bench_test.py.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/cli/bench/bench.h"
#include "src/cli/bench/probe.h"
#include "src/cli/verbs.h"

namespace tenon::cli {
namespace {

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string bytes_text(double bytes) {
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.2f} GB", bytes / 1e9);
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i)
    out += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return out;
}

double of_copy(const Measured& m) { return m.bytes_per_second() / m.copy; }
double of_peak(const Measured& m) { return m.operations_per_second() / m.peak; }

}  // namespace

double Measured::share_of_roofline() const {
  return std::max(work.bytes / copy, work.operations / peak) / seconds();
}

std::string advice(const Measured& m) {
  constexpr double kSlowProbes = 1.25;  // no case is so much faster than undisturbed probes
  if (of_copy(m) >= kSlowProbes || (of_peak(m) >= kSlowProbes && m.work.peak_holds))
    return fmt::format("faster than the probes, by {:.0f} %: something slowed them",
                       (std::max(of_copy(m), of_peak(m)) - 1) * 100);
  if (of_peak(m) > 1.05 && !m.work.peak_holds)
    return fmt::format(
        "bound by multiply-adds: {:.0f} % of the peak of f32: other types are faster, or fewer are computed "
        "than counted",
        of_peak(m) * 100);
  if (of_copy(m) >= 0.7 && of_copy(m) >= of_peak(m))
    return fmt::format("memory bound: {:.0f} % of a copy of as many bytes", of_copy(m) * 100);
  if (of_peak(m) >= 0.6) return fmt::format("bound by multiply-adds: {:.0f} % of the peak", of_peak(m) * 100);
  if (m.without_expensive > 0 && m.without_expensive < 0.75 * m.seconds())
    return fmt::format("bound by {}: without, a call takes {}", joined(m.work.expensive),
                       time_text(m.without_expensive));
  if (m.kernels > 1)
    return fmt::format("{} ops run as {} kernels and library calls{}", m.work.nodes, m.kernels,
                       m.ends.empty() ? "" : "; the first ends because " + m.ends);
  if (m.seconds() < 1e-6) return "bound by the call itself: the work is small";
  return fmt::format(
      "{:.0f} % of a copy of as many bytes and {:.0f} % of the multiply-add peak: neither decides",
      of_copy(m) * 100, of_peak(m) * 100);
}

Table::Table(size_t longest_name) : width_(std::clamp<size_t>(longest_name, 4, 56)) {
  print_line(machine());
  print_line(fmt::format("{:<{}} {:>10} {:>10} {:>10} {:>10} {:>10} {:>6} {:>8} {:>8} {:>8} {:>8}", "case",
                         width_, "compile", "first", "p50", "p90", "p99", "noise", "GB/s", "GFLOP/s",
                         "roofline", "unfused"));
  std::fflush(stdout);  // for a reader at the other end of a pipe
}

void Table::print(const Measured& m) const {
  print_line(fmt::format(
      "{:<{}} {:>10} {:>10} {:>10} {:>10} {:>10} {:>5.1f}% {:>8.1f} {:>8.1f} {:>7.0f}% {:>8}", m.name, width_,
      m.compile_ms > 0 ? time_text(m.compile_ms / 1e3) : "-", time_text(m.first_ms / 1e3),
      time_text(m.seconds()), time_text(m.timing.quantile(0.9)), time_text(m.timing.quantile(0.99)),
      m.timing.noise() * 100, m.bytes_per_second() / 1e9, m.operations_per_second() / 1e9,
      m.share_of_roofline() * 100, m.unfused > 0 ? fmt::format("{:.2f}x", m.unfused / m.seconds()) : "-"));
  const double saved = m.work.apart_bytes - m.traffic;
  print_line(fmt::format(
      "  {}{}{}{}", advice(m),
      saved > 0.01 * m.work.apart_bytes
          ? "; fusion saves " + bytes_text(saved) + " of " + bytes_text(m.work.apart_bytes)
          : "",
      m.moved > 0.1 ? fmt::format("; the probes moved by {:.0f} %: measure again", m.moved * 100) : "",
      m.checked ? "" : "; too large to compare with the evaluator"));
  std::fflush(stdout);
}

std::string json_text(const std::vector<Measured>& all) {
  using Json = nlohmann::ordered_json;
  char host[256] = "", date[64] = "";
  gethostname(host, sizeof host - 1);
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::strftime(date, sizeof date, "%FT%T%z", &local);
  Json out;
  out["context"] = {{"date", date},
                    {"host_name", host},
                    {"executable", "tenon bench"},
                    {"num_cpus", sysconf(_SC_NPROCESSORS_ONLN)},
                    {"machine", machine()},
                    {"library_build_type", "release"}};
  out["benchmarks"] = Json::array();
  for (const Measured& m : all) {
    const std::vector<double> medians = m.timing.medians();
    const auto entry = [&](const std::string& suffix, double seconds) {
      Json e;
      e["name"] = m.name + suffix;
      e["run_name"] = m.name;
      e["run_type"] = suffix.empty() ? "iteration" : "aggregate";
      e["repetitions"] = medians.size();
      e["threads"] = m.threads;
      e["real_time"] = seconds * 1e6;
      e["cpu_time"] = seconds * 1e6;
      e["time_unit"] = "us";
      return e;
    };
    for (size_t i = 0; i < medians.size(); ++i) {
      Json e = entry("", medians[i]);
      e["repetition_index"] = i;
      e["iterations"] = m.timing.rounds[i].size();
      out["benchmarks"].push_back(std::move(e));
    }
    double mean = 0, square = 0;
    for (const double x : medians) mean += x / static_cast<double>(medians.size());
    for (const double x : medians) square += (x - mean) * (x - mean);
    const double deviation =
        medians.size() > 1 ? std::sqrt(square / static_cast<double>(medians.size() - 1)) : 0;
    for (const auto& [name, value] :
         {std::pair("mean", mean), std::pair("median", median(medians)), std::pair("stddev", deviation)}) {
      Json e = entry(std::string("_") + name, value);
      e["aggregate_name"] = name;
      if (std::string_view(name) == "median") {
        e["subject"] = m.subject;
        e["dims"] = m.dims;
        e["bytes"] = m.work.bytes;
        e["operations"] = m.work.operations;
        e["compile_ms"] = m.compile_ms;
        e["first_call_ms"] = m.first_ms;
        e["p90_us"] = m.timing.quantile(0.9) * 1e6;
        e["p99_us"] = m.timing.quantile(0.99) * 1e6;
        e["bytes_per_second"] = m.bytes_per_second();
        e["operations_per_second"] = m.operations_per_second();
        e["copy_bytes_per_second"] = m.copy;
        e["peak_operations_per_second"] = m.peak;
        e["share_of_roofline"] = m.share_of_roofline();
        e["probes_moved"] = m.moved;
        e["kernels"] = m.kernels;
        e["bytes_saved"] = m.work.apart_bytes - m.traffic;
        e["unfused_us"] = m.unfused * 1e6;
        e["advice"] = advice(m);
        e["noise"] = m.timing.noise();
        e["checked"] = m.checked;
        e["graph"] = m.graph;
        e["steps"] = m.steps;
      }
      out["benchmarks"].push_back(std::move(e));
    }
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status can_write(const std::string& path) {
  const bool is_new = access(path.c_str(), F_OK) != 0;
  if (!std::ofstream(path, std::ios::app)) return system_error(path);
  if (is_new) unlink(path.c_str());
  return {};
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return file ? Status() : system_error(path);
}

}  // namespace tenon::cli
