// Measurements: calls of several contenders in turn, so that a change of the machine's speed meets all of them, and how two measurements
// are compared. Tested by tests/bench_test.py.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace tenon::cli {

// Seconds of the calls of one contender, by rounds.
struct Timing {
  std::vector<std::vector<double>> rounds;

  double quantile(double q) const;      // of all calls
  std::vector<double> medians() const;  // one per round
  // The median distance of the rounds' medians from their median, as a share of it.
  double noise() const;
};

double median(std::vector<double> values);

// Calls each contender for seconds / rounds in each round, at least once; each round begins with another contender. before: runs before every
// call; its time belongs to the seconds but to no call.
Result<std::vector<Timing>> measure(const std::vector<std::function<Status()>>& contenders, double seconds,
                                    int rounds, const std::function<void()>& before);

// The probability that two sets of values from one distribution differ by as much (two-sided Mann-Whitney U test, normal approximation).
double mann_whitney(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace tenon::cli
