// Life after fork(). The child has one thread. The OpenMP threads of its parent's thread are gone, but OpenMP
// does not know that: its next parallel region would wait for them forever. So Tenon's work for the forking
// thread runs, in the child, on a new thread, for which OpenMP starts threads anew. Threads that the child
// starts need nothing. Tested by tests/unit/runtime/fork_test.cc.
#pragma once

#include <utility>

namespace tenon {

// Defined in backends/cpu/threads.cc.
void watch_forks();   // takes effect from here on; may be called any number of times
bool threads_lost();  // whether the calling thread lost its OpenMP threads in a fork
void on_new_thread(void (*job)(void*), void* arg);  // returns when the job is done; rethrows its exception

template <class Body>
auto where_threads_are(Body&& body) {
  if (!threads_lost()) return body();
  decltype(body()) result;
  auto job = [&] { result = body(); };
  on_new_thread([](void* arg) { (*static_cast<decltype(job)*>(arg))(); }, &job);
  return result;
}

}  // namespace tenon
