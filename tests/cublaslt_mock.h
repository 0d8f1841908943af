// The controls of the mock of cuBLASLt (cublaslt_mock.cc), for tests: everything is of the process, and reset() forgets it all.
#pragma once

#include <dlfcn.h>

#include <type_traits>

#include "src/base/status.h"

struct CublasLtMock {
  // Every call of cublasLtMatmul and of the heuristic, a line each, in the library's words: columns first.
  const char* (*log)() = nullptr;
  // What is alive, and every fault so far; empty where nothing is.
  const char* (*leaks)() = nullptr;
  void (*reset)() = nullptr;
  // The nth call of `name` from now on, counted from 1, fails with `code`; what gives something back gives it back all the same.
  // 0: none does any more.
  void (*fail)(const char* name, int nth, int code) = nullptr;
  // Calls of `name` since reset().
  int (*calls)(const char* name) = nullptr;
  // workspace=N: what algorithms ask for, where so much is offered. version=N. batched=0: no epilogue for batches.
  // aligned=N: no algorithm for pointers that are less aligned. memory=0: matrices may be anywhere, also as CUBLASLT_MOCK.
  void (*set)(const char* name, int value) = nullptr;

  static const CublasLtMock& get() {
    static const CublasLtMock mock = [] {
      CublasLtMock m;
      void* library = dlopen(TENON_CUBLASLT_MOCK, RTLD_NOW | RTLD_LOCAL);
      TENON_CHECK(library, dlerror());
      auto resolve = [&](const char* name, auto& function) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
        TENON_CHECK(function, name);
      };
      resolve("tn_lt_log", m.log);
      resolve("tn_lt_leaks", m.leaks);
      resolve("tn_lt_reset", m.reset);
      resolve("tn_lt_fail", m.fail);
      resolve("tn_lt_calls", m.calls);
      resolve("tn_lt_set", m.set);
      return m;
    }();
    return mock;
  }
};
