// What the mocks of cuBLASLt and of cuDNN share: handling of calls, settings, numbers in memory, and requests to the mock driver
// that TENON_CUDA_DRIVER names.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <thread>

#include "backends/nvidia/cublaslt/api.h"
#include "backends/nvidia/cudnn/api.h"
#include "backends/nvidia/device/driver_api.h"
#include "src/base/convert.h"
#include "tests/mocks/mock_calls.h"

namespace {

struct MockLibrary : MockCalls {
  std::mutex lock;
  std::map<std::string, int> settings;
  std::string last;  // the error text of the last failed call

  // Handles one call. `runs`: the function that yields to other threads first. body(guard) returns the status.
  template <class F>
  int call(const std::string& name, const char* runs, F&& body) {
    if (name == runs) std::this_thread::yield();
    std::unique_lock guard(lock);
    const int planned = begin(name);
    last.clear();
    const bool gives_back = name.find("Destroy") != name.npos;
    const int code = !planned || gives_back ? body(guard) : 0;
    if (planned) last = "as planned";
    return planned ? planned : code;
  }
  void set(const char* name, int value) {
    const std::lock_guard guard(lock);
    if (!settings.count(name)) std::abort();  // a mistake in a test
    settings[name] = value;
  }
  // Sets all settings. memory=0 in this environment variable: pointers to device memory are not checked.
  void settings_are(std::map<std::string, int> all, const char* variable) {
    settings = std::move(all);
    const char* given = std::getenv(variable);
    settings["memory"] = !(given && std::string(given) == "memory=0");
  }

  template <class F>
  static F* driver(const char* name) {
    const char* path = std::getenv("TENON_CUDA_DRIVER");
    void* library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
    return library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
  }
  static const void* current_context() {
    auto* get = driver<int(tenon::cuda::CuContext*)>("cuCtxGetCurrent");
    tenon::cuda::CuContext context = nullptr;
    return get && get(&context) == 0 ? context : nullptr;
  }
  bool on_device(const char* begin, int64_t bytes) {
    if (!settings["memory"]) return begin != nullptr;
    auto* get = driver<int(void*, int, unsigned long long)>("cuPointerGetAttribute");
    int device = -1;
    auto there = [&](const char* p) {
      return get(&device, tenon::cuda::kCuPointerDeviceOrdinal, reinterpret_cast<unsigned long long>(p)) == 0;
    };
    return get && there(begin) && there(begin + bytes - 1);
  }
  static bool captures() {
    auto* captures = driver<int()>("tn_mock_captures");
    return captures && captures();
  }
  // Runs the work now, or whenever the graph that the stream captures is launched.
  static void queue(const void* stream, const std::function<void()>& work, const std::string& text) {
    auto* put = driver<void(const void*, const std::function<void()>&, const char*)>("tn_mock_queue");
    put ? put(stream, work, text.c_str()) : work();
  }
};

// Types by their numbers, which are the same in both libraries; any other type is bf16.
constexpr int kF32 = 0, kF64 = 1, kF16 = 2;
static_assert(tenon::cublaslt::kLtF32 == kF32 && tenon::cudnn::kDnnF32 == kF32);
static_assert(tenon::cublaslt::kLtF64 == kF64 && tenon::cudnn::kDnnF64 == kF64);
static_assert(tenon::cublaslt::kLtF16 == kF16 && tenon::cudnn::kDnnF16 == kF16);

inline int64_t item_size(int type) { return type == kF64 ? 8 : type == kF32 ? 4 : 2; }
inline double load(int type, const char* p) {
  switch (type) {
    case kF64: return *reinterpret_cast<const double*>(p);
    case kF32: return *reinterpret_cast<const float*>(p);
    case kF16: return tenon::f16_to_f32(*reinterpret_cast<const uint16_t*>(p));
    default: return tenon::bf16_to_f32(*reinterpret_cast<const uint16_t*>(p));
  }
}
inline void store(int type, char* p, double value) {
  const auto narrow = static_cast<float>(value);
  switch (type) {
    case kF64: *reinterpret_cast<double*>(p) = value; break;
    case kF32: *reinterpret_cast<float*>(p) = narrow; break;
    case kF16: *reinterpret_cast<uint16_t*>(p) = tenon::f32_to_f16(narrow); break;
    default: *reinterpret_cast<uint16_t*>(p) = tenon::f32_to_bf16(narrow);
  }
}

}  // namespace
