// Life after fork(). The child has one thread; the OpenMP threads that its parent's thread had are gone, and OpenMP does
// not know: its next parallel region waits for them for ever. So what the forking thread asks of Tenon in the child is
// done on a thread of ours, for which OpenMP starts threads anew. Threads that the child starts itself need nothing.
// Tested by tests/unit/runtime/fork_test.cc.
#pragma once

#include <utility>

namespace tenon {

// Defined in backends/cpu/threads.cc.
void watch_forks();                                 // from here on; any number of times
bool threads_lost();                                // by the calling thread, in a fork
void on_new_thread(void (*job)(void*), void* arg);  // returns when done; what the job throws is thrown here

template <class Body>
auto where_threads_are(Body&& body) {
  if (!threads_lost()) return body();
  decltype(body()) result;
  auto job = [&] { result = body(); };
  on_new_thread([](void* arg) { (*static_cast<decltype(job)*>(arg))(); }, &job);
  return result;
}

}  // namespace tenon
