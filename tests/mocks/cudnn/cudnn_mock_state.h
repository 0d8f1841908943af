// The state of the mock of cuDNN (cudnn_mock.cc): handles, descriptors, the rules for their attributes, the engines that it pretends
// to have, calls that fail on request.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

#include "tests/mocks/cudnn/cudnn_mock_graph.h"

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
  const Engine* engine = nullptr;  // for configurations, engines and plans
  const Object* graph = nullptr;   // for configurations, engines and plans
  bool busy = false;
};

struct State : MockLibrary {
  std::set<const Handle*> handles;
  std::set<const Object*> objects;
  std::vector<Engine> engines[2];                            // of mode A, of the fallback mode
  std::vector<std::unique_ptr<std::vector<Engine>>> former;  // earlier ones, which plans may still name
  State() { reset(); }
  void reset() {
    settings_are({{"version", 91901}}, "CUDNN_MOCK");
    forget_calls();
    last.clear();
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

template <class F>
int call(const char* name, F&& body) {
  return state().call(name, "cudnnBackendExecute", body);
}

int fault(const std::string& what) {
  state().faults += what + "\n";
  state().last = what;
  return kDnnBadParam;
}

// The rule for an attribute: its type, and the least and greatest number of values. With a least number of 0 it may be missing.
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
    {kDnnTensor, kDnnTensorIsVirtual, kDnnTypeBool, 0, 1},
    {kDnnTensor, kDnnTensorIsNumber, kDnnTypeBool, 0, 1},
    {kDnnPointwise, kDnnPointwiseMode, kDnnTypePointwise, 1, 1},
    {kDnnPointwise, kDnnPointwiseCompute, kDnnTypeDataType, 1, 1},
    {kDnnPointwise, kDnnPointwiseAxis, kDnnTypeInt64, 0, 1},
    {kDnnPointwiseOperation, kDnnPointwiseIs, kDnnTypeDescriptor, 1, 1},
    {kDnnPointwiseOperation, kDnnPointwiseX, kDnnTypeDescriptor, 1, 1},
    {kDnnPointwiseOperation, kDnnPointwiseB, kDnnTypeDescriptor, 0, 1},
    {kDnnPointwiseOperation, kDnnPointwiseT, kDnnTypeDescriptor, 0, 1},
    {kDnnPointwiseOperation, kDnnPointwiseY, kDnnTypeDescriptor, 1, 1},
    {kDnnProduct, kDnnProductCompute, kDnnTypeDataType, 1, 1},
    {kDnnProductOperation, kDnnProductIs, kDnnTypeDescriptor, 1, 1},
    {kDnnProductOperation, kDnnProductA, kDnnTypeDescriptor, 1, 1},
    {kDnnProductOperation, kDnnProductB, kDnnTypeDescriptor, 1, 1},
    {kDnnProductOperation, kDnnProductC, kDnnTypeDescriptor, 1, 1},
    {kDnnReduction, kDnnReductionMode, kDnnTypeReduction, 1, 1},
    {kDnnReduction, kDnnReductionCompute, kDnnTypeDataType, 1, 1},
    {kDnnReductionOperation, kDnnReductionIs, kDnnTypeDescriptor, 1, 1},
    {kDnnReductionOperation, kDnnReductionX, kDnnTypeDescriptor, 1, 1},
    {kDnnReductionOperation, kDnnReductionY, kDnnTypeDescriptor, 1, 1},
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
    {kDnnGraph, kDnnGraphOperations, kDnnTypeDescriptor, 1, 64},
    {kDnnHeuristics, kDnnHeuristicsGraph, kDnnTypeDescriptor, 1, 1},
    {kDnnHeuristics, kDnnHeuristicsMode, kDnnTypeHeuristic, 1, 1},
    {kDnnPlan, kDnnPlanHandle, kDnnTypeHandle, 1, 1},
    {kDnnPlan, kDnnPlanEngineConfig, kDnnTypeDescriptor, 1, 1},
    {kDnnVariantPack, kDnnPackIds, kDnnTypeInt64, 3, 8},
    {kDnnVariantPack, kDnnPackPointers, kDnnTypePointer, 3, 8},
    {kDnnVariantPack, kDnnPackWorkspace, kDnnTypePointer, 1, 1},
};
size_t item_of(int type) {
  switch (type) {
    case kDnnTypeBool: return sizeof(bool);
    case kDnnTypePointwise:
    case kDnnTypeReduction:
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
// The finalized descriptor of this type that an attribute names. Otherwise null, and a fault is recorded.
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
  const Object *x, *w, *y, *convolution;  // named as in the forward convolution
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
bool says(const Object& tensor, int attribute) {
  return tensor.values.count(attribute) && tensor.values.at(attribute).bytes[0];
}
int64_t id_of(const Object& tensor) { return value_of<int64_t>(tensor, kDnnTensorId); }

// A graph that can run: its tensors in memory, also numbers, and its operations.
struct Call {
  std::map<int64_t, const Object*> tensors;
  int64_t result = 0;
  std::string text;
  std::function<void(const std::map<int64_t, char*>&)> run;
};

bool add_node(const Object& o, GraphJob& job, Call& call) {
  const bool maps = o.type == kDnnPointwiseOperation, reduces = o.type == kDnnReductionOperation;
  const Object* how = maps      ? part_of(o, kDnnPointwiseIs, kDnnPointwise)
                      : reduces ? part_of(o, kDnnReductionIs, kDnnReduction)
                                : part_of(o, kDnnProductIs, kDnnProduct);
  if (!how) return false;
  Node node{o.type};
  if (maps) node.mode = value_of<int32_t>(*how, kDnnPointwiseMode);
  if (reduces) node.mode = value_of<int32_t>(*how, kDnnReductionMode);
  if (how->values.count(kDnnPointwiseAxis) && maps) node.axis = value_of<int64_t>(*how, kDnnPointwiseAxis);
  const auto add = [&](int attribute) {
    const Object* t = part_of(o, attribute, kDnnTensor);
    if (!t) return int64_t{0};
    const bool within = says(*t, kDnnTensorIsVirtual);
    job.tensors[id_of(*t)] = {array_of(*t), within, says(*t, kDnnTensorIsNumber)};
    if (!within) call.tensors[id_of(*t)] = t;
    return id_of(*t);
  };
  for (int a : maps      ? std::vector<int>{kDnnPointwiseX, kDnnPointwiseB, kDnnPointwiseT}
               : reduces ? std::vector<int>{kDnnReductionX}
                         : std::vector<int>{kDnnProductA, kDnnProductB})
    if (o.values.count(a)) node.inputs.push_back(add(a));
  node.output = add(maps ? kDnnPointwiseY : reduces ? kDnnReductionY : kDnnProductC);
  job.nodes.push_back(std::move(node));
  return true;
}

// The call of a graph that is finalized or about to be. Nothing, and a fault, if the graph is wrong.
std::optional<Call> call_of(const Object& graph) {
  Call call;
  const auto list = list_of<const Object*>(graph, kDnnGraphOperations);
  for (const Object* o : list)
    if (!state().objects.count(o) || !o->final)
      return fault("an operation that is not there, or not finalized"), std::nullopt;
  if (list[0]->type == kDnnConvolutionForward || list[0]->type == kDnnConvolutionBackwardData) {
    Operation op;
    if (list.size() != 1) return fault("a convolution is alone"), std::nullopt;
    if (!operation_of(*list[0], op)) return std::nullopt;
    const int64_t x = id_of(*op.x), w = id_of(*op.w), y = id_of(*op.y);
    call.tensors = {{x, op.x}, {w, op.w}, {y, op.y}};
    call.result = op.backward ? x : y;
    const Job job = job_of(op);
    call.text = job.text();
    call.run = [=](const std::map<int64_t, char*>& data) { job.run(data.at(x), data.at(w), data.at(y)); };
    return call;
  }
  GraphJob job;
  for (const Object* o : list)
    if (!add_node(*o, job, call)) return std::nullopt;
  if (const std::string wrong = job.check(); !wrong.empty()) return fault(wrong), std::nullopt;
  call.result = job.result();
  call.text = job.text();
  call.run = [job](const std::map<int64_t, char*>& data) { job.run(data); };
  return call;
}

}  // namespace
