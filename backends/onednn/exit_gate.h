// exit_gate: the end of the process while threads run. oneDNN keeps code in static objects, whose destructors unmap it at
// exit under the feet of whoever executes it. So a handler of ours runs before them: it lets nobody enter the library any
// more and waits for those inside. Who comes too late gets a status, so that a host whose static objects join its threads
// ends; the thread on which the process ends may enter. A static object that is made while
// the process already ends, or in the run that is under way then, is behind the handler: so where the library is a shared
// object, what it asks to be destroyed at exit from its first use on is not destroyed at all.
// Tested by tests/unit/runtime/fork_test.cc.
#pragma once

#include "src/base/status.h"

namespace tenon::onednn {

// Stands around every use of the library that executes something or makes a primitive. May nest.
class InLibrary {
 public:
  InLibrary();
  ~InLibrary();
  // environment: too late, the library must not be used.
  Status status() const;
  InLibrary(const InLibrary&) = delete;
  InLibrary& operator=(const InLibrary&) = delete;

 private:
  bool late_ = false;
};

// After a first use, which may have made new static objects: their destructors must run after the handler.
void used_anew();

}  // namespace tenon::onednn
