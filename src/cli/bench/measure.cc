// See measure.h. Tested by tests/bench_test.py.
#include "src/cli/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tenon::cli {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double Timing::quantile(double q) const {
  std::vector<double> all;
  for (const auto& round : rounds) all.insert(all.end(), round.begin(), round.end());
  if (all.empty()) return 0;
  std::ranges::sort(all);
  return all[std::min(all.size() - 1, static_cast<size_t>(q * static_cast<double>(all.size())))];
}

std::vector<double> Timing::medians() const {
  std::vector<double> out;
  for (const auto& round : rounds) out.push_back(median(round));
  return out;
}

double Timing::noise() const {
  const std::vector<double> all = medians();
  const double middle = median(all);
  std::vector<double> distances;
  for (const double m : all) distances.push_back(std::abs(m - middle));
  return middle > 0 ? median(distances) / middle : 0;
}

Result<std::vector<Timing>> measure(const std::vector<std::function<Status()>>& contenders, double seconds,
                                    int rounds, const std::function<void()>& before) {
  using Clock = std::chrono::steady_clock;
  std::vector<Timing> out(contenders.size());
  for (const auto& call : contenders)
    for (int i = 0; i < 3; ++i) TENON_TRY(call());
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  for (int round = 0; round < rounds; ++round)
    for (size_t turn = 0; turn < contenders.size(); ++turn) {
      const size_t c = (turn + static_cast<size_t>(round)) % contenders.size();
      std::vector<double> times;
      double sum = 0;
      do {
        const auto turn_start = Clock::now();
        if (before) before();
        const auto start = Clock::now();
        TENON_TRY(contenders[c]());
        times.push_back(since(start));
        sum += before ? since(turn_start) : times.back();
      } while (sum < seconds / rounds);
      out[c].rounds.push_back(std::move(times));
    }
  return out;
}

double mann_whitney(const std::vector<double>& a, const std::vector<double>& b) {
  const double n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  if (n == 0 || m == 0) return 1;
  double u = 0;
  for (const double x : a)
    for (const double y : b) u += x > y ? 1 : x == y ? 0.5 : 0;
  const double deviation = std::sqrt(n * m * (n + m + 1) / 12);
  const double z = (std::abs(u - n * m / 2) - 0.5) / deviation;
  return z <= 0 ? 1 : std::erfc(z / std::sqrt(2.0));
}

}  // namespace tenon::cli
