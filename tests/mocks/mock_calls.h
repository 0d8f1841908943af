// Handling of calls in the mocks of NVIDIA's libraries: counts calls, lets some fail on request, logs them and their faults.
// TN_CONTROLS defines the functions that mock_controls.h looks up, except for reset and leaks.
#pragma once

#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#define TN_CONTROL extern "C" __attribute__((visibility("default")))

template <class... A>
std::string cat(const A&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

struct MockCalls {
  std::string log, faults;

  // Counts a call. Returns the code with which it must fail, or 0.
  int begin(const std::string& name) {
    const int nth = ++counts[name];
    int planned = 0;
    for (const Planned& p : failures)
      if (p.name == name && p.nth == nth) planned = p.code;
    return planned;
  }
  int count(const std::string& name) { return counts[name]; }
  void fail(const std::string& name, int nth, int code) {
    if (nth == 0)
      std::erase_if(failures, [&](const Planned& p) { return p.name == name; });
    else
      failures.push_back({name, counts[name] + nth, code});
  }
  void forget_calls() { log.clear(), faults.clear(), counts.clear(), failures.clear(); }
  // Keeps the text until the next call of say().
  const char* say(std::string t) {
    text = std::move(t);
    return text.c_str();
  }

 private:
  struct Planned {
    std::string name;
    int nth, code;
  };
  std::string text;
  std::map<std::string, int> counts;
  std::vector<Planned> failures;
};

// state() returns the state of the mock, which has a member `lock`.
#define TN_CONTROLS(prefix)                                           \
  TN_CONTROL const char* prefix##log() {                              \
    const std::lock_guard guard(state().lock);                        \
    return state().say(state().log);                                  \
  }                                                                   \
  TN_CONTROL void prefix##fail(const char* name, int nth, int code) { \
    const std::lock_guard guard(state().lock);                        \
    state().fail(name, nth, code);                                    \
  }                                                                   \
  TN_CONTROL int prefix##calls(const char* name) {                    \
    const std::lock_guard guard(state().lock);                        \
    return state().count(name);                                       \
  }
