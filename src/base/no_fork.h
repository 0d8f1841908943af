// NoFork: a stretch of work that the child of a fork could not end: it holds a lock of ours, or leaves something half
// made that others wait for. fork() waits until no other thread is in such a stretch, and lets none begin meanwhile, so
// that the child finds every lock free. Cold paths only: making programs, plans and kernels, counts, the log. Stretches
// nest; a thread started within one and waited for in it says so by NoFork::Helper. What is waited for while in one must
// never be a thread that may want to begin one. A fork waits ten seconds at most. Tested by tests/unit/runtime/fork_test.cc.
#pragma once

namespace tenon {

class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;

  // Of a thread whose work another one, in a stretch of its own, waits for.
  class Helper {
   public:
    Helper();
    ~Helper();
    Helper(const Helper&) = delete;
    Helper& operator=(const Helper&) = delete;
  };
};

}  // namespace tenon
