// See profile.h.
#include "src/runtime/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/no_fork.h"
#include "src/base/text.h"
#include "src/base/threads/immortal.h"
#include "src/ir/group.h"
#include "src/ir/op.h"
#include "src/runtime/cost.h"

namespace tenon {

std::atomic<int> watchers{0};

struct StepObserver {
  void (*begin)(void* user, const char* name);
  void (*end)(void* user);
  void* user;
};

namespace {

using Time = ProfileClock::time_point;

double seconds(ProfileClock::duration d) { return std::chrono::duration<double>(d).count(); }

struct StepProfile {
  std::string backend, ops, why = {}, runs = {};
  double bytes = 0, operations = 0;
  int64_t count = 0;
  double sum = 0, fastest = 0;

  void add(double s) {
    fastest = count == 0 ? s : std::min(fastest, s);
    sum += s;
    ++count;
  }
};

struct ProgramProfile {
  int64_t number = 0;
  std::string graph, sizes;
  int64_t runs = 0;
  double sum = 0;
  std::vector<StepProfile> steps;  // one per executable, then the copies of updates
};

struct Event {
  std::string name;
  const char* category;
  int64_t program;  // its number
  int step;         // or -1
  int thread;
  Time begin, end;
};

struct Profile {
  std::mutex mutex;  // guards everything below
  Time start;
  std::vector<ProgramProfile> programs;
  std::map<std::pair<int64_t, std::vector<int64_t>>, int> position_of;  // by number and key of the plan
  std::vector<Event> events;
  int64_t dropped = 0;
  std::map<std::thread::id, int> threads;
  std::shared_ptr<const StepObserver> observer;
  // The names that event_names() made for the programs that the observer has seen, by number and source.
  std::map<std::pair<int64_t, const PlanSource*>, std::shared_ptr<const EventNames>> names;

  void clear() {
    programs.clear();
    position_of.clear();
    events.clear();
    threads.clear();
    dropped = 0;
  }
  void add(Event event) {
    if (events.size() < kMostEvents)
      events.push_back(std::move(event));
    else
      ++dropped;
  }
  int this_thread() {
    return threads.emplace(std::this_thread::get_id(), static_cast<int>(threads.size())).first->second;
  }
};

Profile& profile() { return immortal<Profile>(); }

bool recording() { return watchers & kProfile; }

std::string ops_of(const Graph& g, const std::vector<ValueId>& members, const char* between) {
  std::string ops;
  for (const ValueId v : members) ops += (ops.empty() ? "" : between) + std::string(op(g.node(v).op).name);
  return ops;
}

constexpr size_t kLongestName = 80;  // of an event

std::shared_ptr<const EventNames> event_names(const Graph& g) {
  EventNames names;
  for (const auto& members : members_of_groups(g))
    names.push_back(("tenon::" + ops_of(g, members, "+")).substr(0, kLongestName));
  names.emplace_back("tenon::copies to updated inputs");
  return std::make_shared<const EventNames>(std::move(names));
}

StepProfile describe(const Graph& g, const Group& group, const std::vector<ValueId>& members,
                     const Executable& executable, const Cost& cost) {
  StepProfile step;
  step.backend = group.backend;
  step.why = group.why;
  step.runs = executable.describe();
  step.ops = ops_of(g, members, " ");
  for (const ValueId v : members) step.operations += cost.operations(v);
  for (const auto* values : {&executable.inputs, &executable.outputs})
    for (const ValueId v : *values) step.bytes += cost.bytes(v);
  return step;
}

ProgramProfile describe(const ProfiledRun& run) {
  const Graph& g = *run.source.graph;
  ProgramProfile program;
  program.number = run.program;
  program.graph = run.graph.name;
  for (size_t i = 0; i < run.plan.symbols().size(); ++i)
    program.sizes += (i ? " " : "") + g.dims->symbol_name(g.dims->symbol_at(static_cast<int>(i))) + "=" +
                     std::to_string(run.plan.symbols()[i]);
  const Cost cost(g, run.plan.symbols());
  const auto members = members_of_groups(g);
  for (size_t i = 0; i < members.size(); ++i)
    program.steps.push_back(describe(g, g.groups[i], members[i], *run.source.executables[i], cost));
  program.steps.push_back({.backend = "copy", .ops = "copies to updated inputs"});
  return program;
}

std::string print(const StepProfile& s, size_t number) {
  return fmt::format(
      "{{\"step\": {}, \"backend\": {}, \"ops\": {}, \"why\": {}, \"runs\": {}, \"seconds\": {:.9g}, "
      "\"fastest\": {:.9g}, "
      "\"bytes\": {:.0f}, \"operations\": {:.0f}}}",
      number, json_quoted(s.backend), json_quoted(s.ops), json_quoted(s.why), json_quoted(s.runs), s.sum,
      s.fastest, s.bytes, s.operations);
}

std::string print(const ProgramProfile& p) {
  std::string steps;
  for (size_t i = 0; i < p.steps.size(); ++i)
    if (p.steps[i].count > 0) steps += (steps.empty() ? "" : ",\n    ") + print(p.steps[i], i);
  return fmt::format(
      "{{\"program\": {}, \"graph\": {}, \"sizes\": {}, \"runs\": {}, \"seconds\": {:.9g}, \"steps\": [\n    "
      "{}]}}",
      p.number, json_quoted(p.graph), json_quoted(p.sizes), p.runs, p.sum, steps);
}

std::string print(const Event& e, Time start) {
  const auto microseconds = [](ProfileClock::duration d) {
    return std::chrono::duration<double, std::micro>(d).count();
  };
  return fmt::format(
      "{{\"name\": {}, \"cat\": \"{}\", \"ph\": \"X\", \"ts\": {:.3f}, \"dur\": {:.3f}, \"pid\": 1, \"tid\": "
      "{}, "
      "\"args\": {{\"program\": {}{}}}}}",
      json_quoted(e.name), e.category, microseconds(e.begin - start), microseconds(e.end - e.begin), e.thread,
      e.program, e.step < 0 ? "" : ", \"step\": " + std::to_string(e.step));
}

}  // namespace

Status start_profile() {
  Profile& p = profile();
  const NoFork no_fork;
  const std::lock_guard lock(p.mutex);
  if (recording()) return invalid("a profile is being recorded already");
  p.clear();
  p.start = ProfileClock::now();
  watchers |= kProfile;
  return {};
}

Result<std::string> stop_profile() {
  Profile& p = profile();
  const NoFork no_fork;
  const std::lock_guard lock(p.mutex);
  if (!recording()) return invalid("no profile is being recorded");
  watchers &= ~kProfile;
  std::string programs, events;
  for (const ProgramProfile& program : p.programs)
    programs += (programs.empty() ? "" : ",\n  ") + print(program);
  for (const Event& e : p.events) events += (events.empty() ? "" : ",\n  ") + print(e, p.start);
  std::string text =
      fmt::format("{{\"programs\": [\n  {}],\n\"dropped_events\": {},\n\"traceEvents\": [\n  {}]}}\n",
                  programs, p.dropped, events);
  p.clear();
  return text;
}

void observe_steps(void (*begin)(void* user, const char* name), void (*end)(void* user), void* user) {
  Profile& p = profile();
  const NoFork no_fork;
  const std::lock_guard lock(p.mutex);
  p.observer = begin ? std::make_shared<StepObserver>(StepObserver{begin, end, user}) : nullptr;
  p.names.clear();
  begin ? watchers |= kObserver : watchers &= ~kObserver;
}

WatchedRun::WatchedRun(const ProfiledRun& run, Time start) : run_(run), start_(start) {
  Profile& p = profile();
  const NoFork no_fork;
  const std::lock_guard lock(p.mutex);
  observer_ = p.observer;
  if (!observer_) return;
  auto& names = p.names[{run.program, &run.source}];
  if (!names) names = event_names(*run.source.graph);
  names_ = names;
}

void WatchedRun::begin(int executable) {
  if (observer_) {
    const std::string& name = executable < 0 ? names_->back() : (*names_)[executable];
    observer_->begin(observer_->user, name.c_str());
  }
  times_.push_back({executable, ProfileClock::now(), {}});
}

void WatchedRun::end() {
  times_.back().end = ProfileClock::now();
  if (observer_) observer_->end(observer_->user);
}

void WatchedRun::succeeded() {
  const Time end = ProfileClock::now();
  Profile& p = profile();
  const NoFork no_fork;
  const std::lock_guard lock(p.mutex);
  if (!recording() || start_ < p.start) return;  // the profile ended, or began, during the run
  const auto [it, added] =
      p.position_of.try_emplace({run_.program, run_.plan.key()}, static_cast<int>(p.programs.size()));
  if (added) p.programs.push_back(describe(run_));
  ProgramProfile& program = p.programs[it->second];
  ++program.runs;
  program.sum += seconds(end - start_);
  const int thread = p.this_thread();
  p.add({program.graph + " " + program.sizes, "run", run_.program, -1, thread, start_, end});
  for (const StepTime& s : times_) {
    const int number = s.executable < 0 ? static_cast<int>(program.steps.size()) - 1 : s.executable;
    StepProfile& step = program.steps[number];
    step.add(seconds(s.end - s.begin));
    p.add({step.ops.substr(0, kLongestName), "step", run_.program, number, thread, s.begin, s.end});
  }
}

void profile_event(const char* category, int64_t program, const Graph& graph, Time begin) {
  const Time end = ProfileClock::now();
  Profile& p = profile();
  const NoFork no_fork;
  const std::lock_guard lock(p.mutex);
  if (!recording() || begin < p.start) return;
  p.add({std::string(category) + " " + graph.name, category, program, -1, p.this_thread(), begin, end});
}

}  // namespace tenon
