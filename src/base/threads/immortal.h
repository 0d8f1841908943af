// immortal: one object of a type per process, made by the first call and never destroyed: threads may be at work while the process
// ends, and what they use outlives static destruction. Any thread. Tested by tests/unit/base/base_test.cc.
#pragma once

namespace tenon {

template <class T, auto... kArguments>
T& immortal() {
  static T& object = *new T(kArguments...);
  return object;
}

}  // namespace tenon
