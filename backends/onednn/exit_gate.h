// exit_gate: makes oneDNN safe when the process ends while threads still run. oneDNN keeps code in static objects, whose
// destructors unmap the code at exit, also while a thread executes it. Therefore a handler of ours runs before them: it closes the
// library and waits up to two seconds for the threads inside. A thread that comes later gets a status and does not block, since
// the static objects of a host may join it. The thread that runs the exit handlers may still enter.
// The handler does not protect a static object that oneDNN creates while the process ends, or in a run that is under way then, since
// the destructor of the object is registered after the handler. So where oneDNN is a shared object, its calls of __cxa_atexit do
// nothing from the first use on: static objects that it creates later are never destroyed.
// Tested by tests/unit/runtime/fork_test.cc.
#pragma once

#include "src/base/status.h"

namespace tenon::onednn {

// Guards every use of the library that executes something or makes a primitive, for as long as the guard lives. Guards may nest.
class InLibrary {
 public:
  InLibrary();
  ~InLibrary();
  // environment: the process is ending, and this thread must not use the library.
  Status status() const;
  InLibrary(const InLibrary&) = delete;
  InLibrary& operator=(const InLibrary&) = delete;

 private:
  bool late_ = false;
};

// Call this after the first use of a primitive, which may have created static objects in the library. It registers the handler
// again, so that the handler runs before their destructors.
void used_anew();

}  // namespace tenon::onednn
