// Profile: how long each step of each run takes, for all programs of the process, from start_profile to stop_profile. While none is
// recorded, a run pays for one load. Any thread. Tested by tests/unit/runtime/profile_test.cc.
#pragma once

#include <atomic>
#include <chrono>
#include <span>
#include <string>

#include "src/base/status.h"
#include "src/runtime/plan/plan.h"

namespace tenon {

// Fails if a profile is being recorded.
Status start_profile();
// Ends the profile and returns it as JSON, which is a Chrome trace with one more key; fails if none is recorded.
//   {"programs": [{"program": 1, "graph": "f", "sizes": "N=4", "runs": 10, "seconds": 0.1,
//       "steps": [{"step": 0, "backend": "cpu", "ops": "mul add", "why": "...", "runs": "...",
//                  "seconds": 0.09, "fastest": 0.008, "bytes": 48, "operations": 12}]}],
//    "dropped_events": 0,
//    "traceEvents": [{"name": "mul add", "cat": "step", "ph": "X", "ts": 1.5, "dur": 8.1, "pid": 1, "tid": 0,
//                     "args": {"program": 1, "step": 0}}]}
// Seconds of programs and steps are sums over runs; `fastest` is of one run. bytes and operations are of one run; bytes count every
// operand and result of the step once. The categories of events are compile, plan, run and step; ts and dur are microseconds since
// start_profile. At most kMostEvents events are kept.
Result<std::string> stop_profile();

inline constexpr size_t kMostEvents = size_t{1} << 16;

using ProfileClock = std::chrono::steady_clock;
extern std::atomic<bool> profile_is_on;
inline bool profiling() { return profile_is_on.load(std::memory_order_relaxed); }

struct ProfiledRun {
  int64_t program;     // its number
  const Graph& graph;  // as the host gave it
  const PlanSource& source;
  const Plan& plan;
};
void profile_run(const ProfiledRun& run, ProfileClock::time_point begin,
                 std::span<const Plan::StepTime> steps);
// category: "compile" or "plan".
void profile_event(const char* category, int64_t program, const Graph& graph, ProfileClock::time_point begin);

}  // namespace tenon
