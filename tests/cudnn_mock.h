// The controls of the mock of cuDNN (cudnn_mock.cc), for tests: everything is of the process, and reset() forgets it all.
#pragma once

#include <dlfcn.h>

#include <type_traits>

#include "src/base/status.h"

struct CudnnMock {
  // Every cudnnBackendExecute, a line each: "forward 1x2x4x4 by 3x2x3x3 f32 nhwc pad 1x1, engine A0 aligned 16 stream 7".
  const char* (*log)() = nullptr;
  // What is alive, and every fault so far; empty where nothing is.
  const char* (*leaks)() = nullptr;
  void (*reset)() = nullptr;
  // The nth call of `name` from now on, counted from 1, fails with `code`; what gives something back gives it back all the same.
  // 0: none does any more.
  void (*fail)(const char* name, int nth, int code) = nullptr;
  // Calls of `name` since reset().
  int (*calls)(const char* name) = nullptr;
  // version=N. memory=0: tensors may be anywhere, also as CUDNN_MOCK.
  void (*set)(const char* name, int value) = nullptr;
  // What the heuristics name, those of mode A, a bar, those of the fallback; engines are set apart by semicolons. Words of an
  // engine: workspace=BYTES fail=STATUS aligned=BYTES (it takes no less) tensorcore down reduced random compiles.
  void (*engines)(const char* text) = nullptr;

  static const CudnnMock& get() {
    static const CudnnMock mock = [] {
      CudnnMock m;
      void* library = dlopen(TENON_CUDNN_MOCK, RTLD_NOW | RTLD_LOCAL);
      TENON_CHECK(library, dlerror());
      auto resolve = [&](const char* name, auto& function) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
        TENON_CHECK(function, name);
      };
      resolve("tn_dnn_log", m.log);
      resolve("tn_dnn_leaks", m.leaks);
      resolve("tn_dnn_reset", m.reset);
      resolve("tn_dnn_fail", m.fail);
      resolve("tn_dnn_calls", m.calls);
      resolve("tn_dnn_set", m.set);
      resolve("tn_dnn_engines", m.engines);
      return m;
    }();
    return mock;
  }
};
