// The controls that every mock of an NVIDIA library has (cuda_mock.h, cublaslt_mock.h, cudnn_mock.h), for tests: everything is of the
// process, and reset() forgets it all. mock_calls.h is the other side of it.
#pragma once

#include <dlfcn.h>

#include <string>

#include "src/base/status.h"

class MockControls {
 public:
  const char* (*log)() =
      nullptr;  // a line each; what is written down is said where the mock's own controls are
  // What is alive, and every fault so far; empty where nothing is.
  const char* (*leaks)() = nullptr;
  void (*reset)() = nullptr;
  // The nth call of `name` from now on, counted from 1, fails with `code`; what gives something back gives it back all the same.
  // 0: none does any more.
  void (*fail)(const char* name, int nth, int code) = nullptr;
  // Calls of `name` since reset().
  int (*calls)(const char* name) = nullptr;

 protected:
  MockControls(const char* path, std::string prefix)
      : library_(dlopen(path, RTLD_NOW | RTLD_LOCAL)), prefix_(std::move(prefix)) {
    TENON_CHECK(library_, dlerror());
    resolve("log", log);
    resolve("leaks", leaks);
    resolve("reset", reset);
    resolve("fail", fail);
    resolve("calls", calls);
  }
  template <class Function>
  void resolve(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library_, (prefix_ + name).c_str()));
    TENON_CHECK(function, prefix_ + name);
  }

 private:
  void* library_;
  std::string prefix_;
};
