// The controls that every mock of an NVIDIA library has (cuda_mock.h, cublaslt_mock.h, cudnn_mock.h), for tests. The state belongs
// to the process; reset() clears it. mock_calls.h implements these functions.
#pragma once

#include <dlfcn.h>

#include <string>

#include "src/base/status.h"

class MockControls {
 public:
  const char* (*log)() = nullptr;  // one call per line; the header of each mock describes its log
  // The objects that are alive, and every fault so far; "" if there are none.
  const char* (*leaks)() = nullptr;
  void (*reset)() = nullptr;
  // Lets the nth call of `name` from now on, counted from 1, fail with `code`. Functions that release something release it all the
  // same. code 0: no call fails any more.
  void (*fail)(const char* name, int nth, int code) = nullptr;
  // The number of calls of `name` since reset().
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
