// The controls of the mock driver (cuda_mock.cc), for tests: everything is of the process, and reset() forgets it all.
#pragma once

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "src/base/status.h"

struct CudaMock {
  // Every call that changes something or asks the device, a line each: "cuLaunchKernel fill grid 4 1 1 block 128 1 1 shared 0
  // (M1+16, 48) stream 0", with " -> 1" behind where it failed. Memory is M1, M2 … in order of allocation, and so are
  // contexts (C0 of device 0), libraries (L), graphs (G), their nodes (N) and executables (X), events (E).
  const char* (*log)() = nullptr;
  // What is alive, retained or pushed on this thread, and every fault so far; empty where nothing is.
  const char* (*leaks)() = nullptr;
  void (*reset)() = nullptr;
  // The nth call of `name` from now on, counted from 1, fails with `code`; 0: none does. What gives something back gives it
  // back all the same.
  void (*fail)(const char* name, int nth, int code) = nullptr;
  // Calls of `name` since reset().
  int (*calls)(const char* name) = nullptr;
  // "devices=2 architecture=75 version=11080 …": see Settings in cuda_mock_state.h. The first ones are those of CUDA_MOCK.
  void (*set)(const char* settings) = nullptr;
  // The order of threads that kernels are run in.
  void (*order)(int order) = nullptr;
  // 0: the stream does not capture; else cuStreamIsCapturing says so, and what must not be done meanwhile fails.
  void (*capture)(void* stream, int status) = nullptr;
  void (*stream_device)(void* stream, int device) = nullptr;
  // Memory of the host counts as a device's, H1, H2 … in the log, until it is adopted with 0 bytes.
  void (*adopt)(void* memory, size_t bytes, int device) = nullptr;

  static const CudaMock& get() {
    static const CudaMock mock = [] {
      CudaMock m;
      void* library = dlopen(TENON_CUDA_MOCK, RTLD_NOW | RTLD_LOCAL);
      TENON_CHECK(library, dlerror());
      auto resolve = [&](const char* name, auto& function) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
        TENON_CHECK(function, name);
      };
      resolve("tn_mock_log", m.log);
      resolve("tn_mock_leaks", m.leaks);
      resolve("tn_mock_reset", m.reset);
      resolve("tn_mock_fail", m.fail);
      resolve("tn_mock_calls", m.calls);
      resolve("tn_mock_set", m.set);
      resolve("tn_mock_order", m.order);
      resolve("tn_mock_capture", m.capture);
      resolve("tn_mock_stream_device", m.stream_device);
      resolve("tn_mock_adopt", m.adopt);
      return m;
    }();
    return mock;
  }
};
