// NoFork: marks a section that the child of a fork could not finish, because the section holds a lock of
// Tenon or leaves an object half made for which other threads wait. fork() waits, for ten seconds at most,
// until no other thread is in such a section, and no section begins meanwhile; so the child finds every lock
// free. For cold paths only: making programs, plans and kernels, counters, the log. Sections nest. A thread
// that a section starts and waits for declares itself with NoFork::Helper. A section must not wait for any
// other thread that may want to begin a section. Tested by tests/unit/runtime/fork_test.cc.
#pragma once

namespace tenon {

class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;

  // For a thread whose work is awaited by a thread that is in a section.
  class Helper {
   public:
    Helper();
    ~Helper();
    Helper(const Helper&) = delete;
    Helper& operator=(const Helper&) = delete;
  };
};

}  // namespace tenon
