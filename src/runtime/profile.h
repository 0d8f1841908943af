// Profile: how long each step of each run takes, for all programs of the process, from start_profile to stop_profile; and calls of the host
// around each step. While nobody watches, a run pays for one load. Any thread. Tested by tests/unit/runtime/profile_test.cc.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

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
// Who watches runs.
enum Watcher : int { kProfile = 1, kObserver = 2 };
extern std::atomic<int> watchers;
inline bool profiling() { return watchers.load(std::memory_order_relaxed) != 0; }

// As in tenon_observe_steps; both null: nobody observes.
void observe_steps(void (*begin)(void* user, const char* name), void (*end)(void* user), void* user);

// EventNames holds the names that an observer gets: one for each executable, then one for the copies of updates.
using EventNames = std::vector<std::string>;

struct ProfiledRun {
  int64_t program;     // its number
  const Graph& graph;  // as the host gave it
  const PlanSource& source;
  const Plan& plan;
};
// One run that somebody watches.
class WatchedRun final : public Plan::Watch {
 public:
  // start: when the call began. run: its references must outlive this object.
  WatchedRun(const ProfiledRun& run, ProfileClock::time_point start);
  void begin(int executable) override;
  void end() override;
  void succeeded();  // adds the run to the profile

 private:
  struct StepTime {
    int executable;
    ProfileClock::time_point begin, end;
  };
  const ProfiledRun run_;
  const ProfileClock::time_point start_;
  std::vector<StepTime> times_;
  std::shared_ptr<const struct StepObserver> observer_;
  std::shared_ptr<const EventNames> names_;  // null without an observer
};
// category: "compile" or "plan".
void profile_event(const char* category, int64_t program, const Graph& graph, ProfileClock::time_point begin);

}  // namespace tenon
