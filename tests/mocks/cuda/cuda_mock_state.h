// What the parts of the mock driver (cuda_mock*.cc) share: its objects, its state, and the handling of every call.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "backends/nvidia/device/driver_api.h"
#include "tests/mocks/mock_calls.h"

#define TN_DRIVER TN_CONTROL int

// Declares the driver's functions as the list has them, so that a definition that differs does not compile.
using namespace tenon::cuda;
extern "C" {
#define X(name, ...) __attribute__((visibility("default"))) int name(__VA_ARGS__);
TENON_CUDA_DRIVER(X)
#undef X
}

namespace tenon::cuda::mock {

// Returns "" or null, or the error. order: the order of threads (cuda_host_gpu.h).
using Entry = const char* (*)(void** arguments, int64_t blocks, unsigned threads, int64_t shared, int order);

constexpr int kInvalidValue = 1, kNotInitialized = 3, kInvalidImage = 200, kInvalidContext = 201,
              kInvalidHandle = 400, kIllegalAddress = 700, kLaunchFailed = 719, kCaptureForbids = 900,
              kCaptureInvalidated = 901, kCaptureImplicit = 906;
constexpr size_t kAlign = 256;
constexpr char kCanary = '\x5a';

struct Settings {
  std::map<std::string, int> values{{"devices", 1},           {"version", 13000}, {"architecture", 90},
                                    {"multiprocessors", 132}, {"threads", 2048},  {"registers", 65536},
                                    {"shared", 232448},       {"clock", 3201000}, {"width", 6144}};
  void read(const char* text) {
    std::istringstream words(text ? text : "");
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      const auto value = values.find(word.substr(0, equals));
      if (equals == word.npos || value == values.end()) std::abort();  // a mistake in a test
      value->second = std::atoi(word.c_str() + equals + 1);
    }
  }
  int operator[](const char* name) const { return values.at(name); }
};

struct Named {
  std::string name;
};
struct Context : Named {
  int device = 0;
  int retained = 0;
};
struct Memory : Named {
  char* block = nullptr;  // null: adopted host memory
  char* data = nullptr;
  size_t bytes = 0;
  int device = 0;
};
struct KernelOf : Named {
  Entry entry = nullptr;
  std::string kinds;
  unsigned own_shared = 0,
           most_shared = kCuDefaultSharedBytes;  // per block: static bytes, most static and dynamic bytes
};
struct LibraryOfKernels : Named {
  void* object = nullptr;
  std::map<std::string, std::unique_ptr<KernelOf>> kernels;
  ~LibraryOfKernels() {
    if (object) dlclose(object);
  }
};
struct Launch {
  KernelOf* kernel = nullptr;
  unsigned grid[3] = {}, block[3] = {}, shared = 0;
  std::vector<uint64_t> values;  // the arguments
  void** given = nullptr;        // the arguments if their kinds are unknown; valid only during the call
};
// Work on a stream: a kernel, the work of another mock, or all items of another graph.
struct Item {
  Launch launch;
  std::function<void()> work;
  std::string text = {};
  std::vector<Item> child = {};
};
struct Node : Named {
  Item item;
};
struct Graph : Named {
  std::vector<std::unique_ptr<Node>> nodes;
  std::thread::id thread = {};  // the thread that captures it
  bool invalidated = false;
};
struct Exec : Named {
  std::vector<std::pair<const Node*, Item>> items;
};
struct Event : Named {
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
};

template <class T>
using Objects = std::map<const void*, std::unique_ptr<T>>;

struct State : MockCalls {
  std::recursive_mutex lock;
  Settings settings;
  bool initialized = false;
  std::map<std::string, int> made;  // number of objects by kind, for their names
  std::map<int, Context> contexts;  // by device
  std::vector<std::unique_ptr<Memory>> memory;
  Objects<LibraryOfKernels> libraries;
  std::set<const void*> kernels;
  Objects<Graph> graphs;
  Objects<Exec> execs;
  Objects<Event> events;
  std::map<const void*, int> capturing, stream_device;
  Objects<Named> streams;                                  // those that cuStreamCreate made
  std::map<const void*, std::unique_ptr<Graph>> captured;  // by stream
  std::set<const void*> pools;                             // memory pools; they live as long as the process
  std::map<const void*, std::vector<std::function<void()>>> copies;  // pending copies by stream
  int order = 0;

  State() { settings.read(std::getenv("CUDA_MOCK")); }
  std::string number(const std::string& kind) { return kind + std::to_string(++made[kind]); }
};
inline State& state() {
  static State& s = *new State;  // the driver outlives static destruction
  return s;
}
inline thread_local std::vector<Context*> stack;
inline thread_local int capture_mode =
    0;  // of this thread; 0: forbidden calls invalidate the captures of all threads

inline Memory* memory_at(uint64_t address, bool with_end = true) {
  for (const auto& m : state().memory) {
    const auto begin = reinterpret_cast<uint64_t>(m->data);
    if (address >= begin && (address < begin + m->bytes || (with_end && address == begin + m->bytes)))
      return m.get();
  }
  return nullptr;
}

inline std::string place(uint64_t address) {
  if (!address) return "null";
  const Memory* m = memory_at(address, false);
  if (!m) m = memory_at(address);
  if (!m) return "elsewhere";
  const uint64_t offset = address - reinterpret_cast<uint64_t>(m->data);
  return m->name + (offset ? cat("+", offset) : "");
}

inline bool within(uint64_t address, size_t bytes) {
  const Memory* m = memory_at(address);
  return m && bytes <= m->bytes - (address - reinterpret_cast<uint64_t>(m->data));
}

inline std::string of(CuStream stream) { return cat(" stream ", reinterpret_cast<uintptr_t>(stream)); }

inline bool captures(CuStream stream) {
  const auto found = state().capturing.find(stream);
  return state().captured.count(stream) || (found != state().capturing.end() && found->second != 0);
}
// A forbidden call on a stream that captures also invalidates the capture.
inline int invalidate(CuStream stream) {
  if (const auto told = state().capturing.find(stream); told != state().capturing.end()) told->second = 2;
  if (const auto own = state().captured.find(stream); own != state().captured.end())
    own->second->invalidated = true;
  return kCaptureForbids;
}
// Whether this is the legacy default stream, which waits for all other streams except those made with kCuNonBlocking.
inline bool legacy(CuStream stream) { return reinterpret_cast<uintptr_t>(stream) <= 1; }
// Whether a stream captures in the global mode, which forbids unsafe calls of other threads.
inline bool strict_capture() {
  return std::any_of(state().capturing.begin(), state().capturing.end(),
                     [](const auto& stream) { return stream.second != 0; });
}

// Whether the driver refuses an unsafe call of this thread, which also invalidates the captures: a stream captures, and the thread is
// not in the relaxed mode. The driver's documentation does not list the unsafe calls; here they are all calls that allocate, load or
// wait.
inline bool unsafe() {
  if (!strict_capture() || capture_mode == kCuRelaxedCapture) return false;
  for (auto& [stream, status] : state().capturing)
    if (status != 0) status = 2;
  return true;
}

template <class T, class Handle>
T* find(Objects<T>& objects, Handle handle) {
  const auto found = objects.find(handle);
  return found == objects.end() ? nullptr : found->second.get();
}
template <class Handle, class T>
Handle keep(Objects<T>& objects, std::unique_ptr<T> object) {
  T* at = object.get();
  objects[at] = std::move(object);
  return reinterpret_cast<Handle>(at);
}
inline KernelOf* kernel_of(const void* handle) {
  return state().kernels.count(handle) ? static_cast<KernelOf*>(const_cast<void*>(handle)) : nullptr;
}

inline void fault(const std::string& what) {
  state().faults += what + "\n";
  state().log += "FAULT " + what + "\n";
}

inline void check_canaries(const Memory& m, const std::string& when) {
  if (!m.block) return;
  auto spoiled = [&](const char* at, size_t bytes) {
    return std::find_if(at, at + bytes, [](char c) { return c != kCanary; }) - at;
  };
  if (spoiled(m.block, kAlign) != static_cast<ptrdiff_t>(kAlign))
    fault(m.name + " is written below, " + when);
  const ptrdiff_t after = spoiled(m.data + m.bytes, kAlign);
  if (after != static_cast<ptrdiff_t>(kAlign))
    fault(cat(m.name, " of ", m.bytes, " bytes is written at +", m.bytes + static_cast<size_t>(after), ", ",
              when));
}

enum class Needs { nothing, init, context };

// Handles one call: counts it, refuses it on request or if something is missing, otherwise runs the body, and logs it.
template <class F>
int call(const char* name, Needs needs, F&& body) {
  State& s = state();
  const std::lock_guard guard(s.lock);
  const int planned = s.begin(name);
  static const std::set<std::string> gives_back{"cuDevicePrimaryCtxRelease_v2",
                                                "cuCtxPopCurrent_v2",
                                                "cuLibraryUnload",
                                                "cuMemFree_v2",
                                                "cuMemFreeAsync",
                                                "cuEventDestroy_v2",
                                                "cuGraphExecDestroy",
                                                "cuGraphDestroy",
                                                "cuStreamDestroy_v2",
                                                "cuStreamEndCapture"};
  std::string text;
  int code = 0;
  if (!planned || gives_back.count(name)) {
    if (needs != Needs::nothing && !s.initialized)
      code = kNotInitialized;
    else if (needs == Needs::context && (stack.empty() || stack.back()->retained == 0))
      code = kInvalidContext;
    else
      code = body(text);
  }
  if (planned) code = planned;
  s.log += name + (text.empty() ? "" : " " + text) + (code ? cat(" -> ", code) : "") + "\n";
  return code;
}

// In cuda_mock_kernel.cc. False: the driver would refuse the launch.
bool make_launch(Launch& l, KernelOf* kernel, const CuKernelNode& n);
std::string describe(const Launch& l);
std::string describe(const Item& item);
int execute(const Launch& l);
int execute(const Item& item);
// Executes the pending copies of the stream to the device.
void finish_copies(CuStream stream);
// Executes the item now, or adds it to the graph that the stream captures.
int queue(CuStream stream, const Item& item);

}  // namespace tenon::cuda::mock

using namespace tenon::cuda::mock;
