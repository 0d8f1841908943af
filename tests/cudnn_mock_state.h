// What the mock of cuDNN (cudnn_mock.cc) knows: handles, descriptors and their attributes as they must be given, the engines it
// pretends to have, calls that are to fail.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/driver_api.h"
#include "backends/cudnn/api.h"
#include "tests/cudnn_mock_compute.h"

using namespace tenon::cudnn;

namespace {

struct Handle {
  const void* context;
  DnnStream stream = nullptr;
  std::thread::id setter = {};
  bool busy = false;
};
struct Engine {
  std::string name;
  int64_t workspace = 0, aligned = 1;
  int fails = 0;
  std::vector<int32_t> numerics, behavior;
};
struct Value {
  int type;
  int64_t count;
  std::string bytes;
};
struct Object {
  int type;
  bool final = false;
  std::map<int, Value> values = {};
  const Engine* engine = nullptr;  // of configurations, engines and plans
  const Object* graph = nullptr;   // likewise
  bool busy = false;
};

struct State {
  std::mutex lock;
  std::map<std::string, int> settings;
  std::string log, faults, text, last;
  std::map<std::string, int> calls;
  struct Planned {
    std::string name;
    int at, code;
  };
  std::vector<Planned> failures;
  std::set<const Handle*> handles;
  std::set<const Object*> objects;
  std::vector<Engine> engines[2];                            // of mode A, of the fallback
  std::vector<std::unique_ptr<std::vector<Engine>>> former;  // that plans may still name
  State() { reset(); }
  void reset() {
    settings = {{"version", 91901}, {"memory", 1}};
    if (const char* given = std::getenv("CUDNN_MOCK"); given && std::string(given) == "memory=0")
      settings["memory"] = 0;
    log.clear(), faults.clear(), calls.clear(), failures.clear(), last.clear();
    plan_engines("workspace=4096|");
  }
  void plan_engines(const std::string& given) {
    for (auto& list : engines) {
      former.push_back(std::make_unique<std::vector<Engine>>(std::move(list)));
      list.clear();
    }
    std::string part[2] = {given.substr(0, given.find('|')), given.substr(given.find('|') + 1)};
    for (int mode = 0; mode < 2; ++mode) {
      if (part[mode].empty()) continue;
      std::istringstream list(part[mode]);
      for (std::string words; std::getline(list, words, ';');) {
        Engine e;
        e.name = (mode ? "F" : "A") + std::to_string(engines[mode].size());
        std::istringstream in(words);
        for (std::string word; in >> word;) {
          const int64_t number =
              word.find('=') == word.npos ? 0 : std::stoll(word.substr(word.find('=') + 1));
          if (word.starts_with("workspace=")) e.workspace = number;
          if (word.starts_with("fail=")) e.fails = static_cast<int>(number);
          if (word.starts_with("aligned=")) e.aligned = number;
          if (word == "tensorcore") e.numerics.push_back(kDnnTensorCore);
          if (word == "down") e.numerics.push_back(kDnnDownConverts);
          if (word == "reduced") e.numerics.push_back(kDnnReducedPrecision);
          if (word == "random") e.numerics.push_back(kDnnNondeterministic);
          if (word == "compiles") e.behavior.push_back(kDnnCompilesAtRunTime);
        }
        engines[mode].push_back(std::move(e));
      }
    }
  }
};
State& state() {
  static State& s = *new State;
  return s;
}

template <class... A>
std::string cat(const A&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class F>
int call(const char* name, F&& body) {
  State& s = state();
  if (std::string(name) == "cudnnBackendExecute") std::this_thread::yield();  // others come in between
  std::unique_lock guard(s.lock);
  const int nth = ++s.calls[name];
  int planned = 0;
  for (const auto& f : s.failures)
    if (f.name == name && f.at == nth) planned = f.code;
  s.last.clear();
  const bool gives_back = std::string(name).find("Destroy") != std::string::npos;
  const int code = !planned || gives_back ? body(guard) : 0;
  if (planned) s.last = "as planned";
  return planned ? planned : code;
}

// What the mock asks of the driver.
template <class F>
F* driver(const char* name) {
  const char* path = std::getenv("TENON_CUDA_DRIVER");
  void* library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  return library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
}
const void* current_context() {
  auto* get = driver<int(tenon::cuda::CuContext*)>("cuCtxGetCurrent");
  tenon::cuda::CuContext context = nullptr;
  return get && get(&context) == 0 ? context : nullptr;
}
bool on_device(const char* begin, int64_t bytes) {
  if (!state().settings["memory"]) return begin != nullptr;
  auto* get = driver<int(void*, int, unsigned long long)>("cuPointerGetAttribute");
  int device = -1;
  auto there = [&](const char* p) {
    return get(&device, tenon::cuda::kCuPointerDeviceOrdinal, reinterpret_cast<unsigned long long>(p)) == 0;
  };
  return get && there(begin) && there(begin + bytes - 1);
}

int fault(const std::string& what) {
  state().faults += what + "\n";
  state().last = what;
  return kDnnBadParam;
}

// An attribute as it must be given, and none may be missing: its type, and how many.
struct Rule {
  int descriptor, attribute, type;
  int64_t least, most;
};
constexpr int64_t kMostDims = 8;
constexpr Rule kRules[] = {
    {kDnnTensor, kDnnTensorId, kDnnTypeInt64, 1, 1},
    {kDnnTensor, kDnnTensorDataType, kDnnTypeDataType, 1, 1},
    {kDnnTensor, kDnnTensorAlignment, kDnnTypeInt64, 1, 1},
    {kDnnTensor, kDnnTensorDims, kDnnTypeInt64, 4, kMostDims},
    {kDnnTensor, kDnnTensorStrides, kDnnTypeInt64, 4, kMostDims},
    {kDnnConvolution, kDnnConvolutionAxes, kDnnTypeInt64, 1, 1},
    {kDnnConvolution, kDnnConvolutionCompute, kDnnTypeDataType, 1, 1},
    {kDnnConvolution, kDnnConvolutionModeIs, kDnnTypeConvolutionMode, 1, 1},
    {kDnnConvolution, kDnnConvolutionStrides, kDnnTypeInt64, 2, 3},
    {kDnnConvolution, kDnnConvolutionDilations, kDnnTypeInt64, 2, 3},
    {kDnnConvolution, kDnnConvolutionPaddingBefore, kDnnTypeInt64, 2, 3},
    {kDnnConvolution, kDnnConvolutionPaddingAfter, kDnnTypeInt64, 2, 3},
    {kDnnConvolutionForward, kDnnForwardConvolution, kDnnTypeDescriptor, 1, 1},
    {kDnnConvolutionForward, kDnnForwardX, kDnnTypeDescriptor, 1, 1},
    {kDnnConvolutionForward, kDnnForwardW, kDnnTypeDescriptor, 1, 1},
    {kDnnConvolutionForward, kDnnForwardY, kDnnTypeDescriptor, 1, 1},
    {kDnnConvolutionForward, kDnnForwardAlpha, kDnnTypeFloat, 1, 1},
    {kDnnConvolutionForward, kDnnForwardBeta, kDnnTypeFloat, 1, 1},
    {kDnnConvolutionBackwardData, kDnnBackwardConvolution, kDnnTypeDescriptor, 1, 1},
    {kDnnConvolutionBackwardData, kDnnBackwardDx, kDnnTypeDescriptor, 1, 1},
    {kDnnConvolutionBackwardData, kDnnBackwardW, kDnnTypeDescriptor, 1, 1},
    {kDnnConvolutionBackwardData, kDnnBackwardDy, kDnnTypeDescriptor, 1, 1},
    {kDnnConvolutionBackwardData, kDnnBackwardAlpha, kDnnTypeFloat, 1, 1},
    {kDnnConvolutionBackwardData, kDnnBackwardBeta, kDnnTypeFloat, 1, 1},
    {kDnnGraph, kDnnGraphHandle, kDnnTypeHandle, 1, 1},
    {kDnnGraph, kDnnGraphOperations, kDnnTypeDescriptor, 1, 1},
    {kDnnHeuristics, kDnnHeuristicsGraph, kDnnTypeDescriptor, 1, 1},
    {kDnnHeuristics, kDnnHeuristicsMode, kDnnTypeHeuristic, 1, 1},
    {kDnnPlan, kDnnPlanHandle, kDnnTypeHandle, 1, 1},
    {kDnnPlan, kDnnPlanEngineConfig, kDnnTypeDescriptor, 1, 1},
    {kDnnVariantPack, kDnnPackIds, kDnnTypeInt64, 3, 3},
    {kDnnVariantPack, kDnnPackPointers, kDnnTypePointer, 3, 3},
    {kDnnVariantPack, kDnnPackWorkspace, kDnnTypePointer, 1, 1},
};
size_t item_of(int type) {
  switch (type) {
    case kDnnTypeDataType:
    case kDnnTypeConvolutionMode:
    case kDnnTypeHeuristic:
    case kDnnTypeFloat: return 4;
    default: return 8;
  }
}

template <class T>
std::vector<T> list_of(const Object& o, int attribute) {
  const Value& v = o.values.at(attribute);
  std::vector<T> list(static_cast<size_t>(v.count));
  std::memcpy(list.data(), v.bytes.data(), v.bytes.size());
  return list;
}
template <class T>
T value_of(const Object& o, int attribute) {
  return list_of<T>(o, attribute)[0];
}
// The finalized descriptor of this type that an attribute names, or null and a fault.
const Object* part_of(const Object& o, int attribute, int type) {
  const auto* part = value_of<const Object*>(o, attribute);
  if (state().objects.count(part) && part->type == type && part->final) return part;
  fault(cat("attribute ", attribute, " is no finalized descriptor of type ", type));
  return nullptr;
}

Array array_of(const Object& tensor) {
  return {value_of<int32_t>(tensor, kDnnTensorDataType), list_of<int64_t>(tensor, kDnnTensorDims),
          list_of<int64_t>(tensor, kDnnTensorStrides)};
}
struct Operation {
  bool backward;
  const Object *x, *w, *y, *convolution;  // as of the forward one
};
bool operation_of(const Object& o, Operation& op) {
  op.backward = o.type == kDnnConvolutionBackwardData;
  op.x = part_of(o, op.backward ? kDnnBackwardDx : kDnnForwardX, kDnnTensor);
  op.w = part_of(o, op.backward ? kDnnBackwardW : kDnnForwardW, kDnnTensor);
  op.y = part_of(o, op.backward ? kDnnBackwardDy : kDnnForwardY, kDnnTensor);
  op.convolution =
      part_of(o, op.backward ? kDnnBackwardConvolution : kDnnForwardConvolution, kDnnConvolution);
  return op.x && op.w && op.y && op.convolution;
}
Job job_of(const Operation& op) {
  return {op.backward,
          array_of(*op.x),
          array_of(*op.w),
          array_of(*op.y),
          list_of<int64_t>(*op.convolution, kDnnConvolutionPaddingBefore),
          list_of<int64_t>(*op.convolution, kDnnConvolutionPaddingAfter),
          list_of<int64_t>(*op.convolution, kDnnConvolutionStrides),
          list_of<int64_t>(*op.convolution, kDnnConvolutionDilations)};
}
const Object* operation_in(const Object& graph) {
  return value_of<const Object*>(graph, kDnnGraphOperations);
}

}  // namespace
