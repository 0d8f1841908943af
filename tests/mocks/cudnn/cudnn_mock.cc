// A cuDNN without a GPU, for tests. libcudnn_mock.so has the functions of backends/nvidia/cudnn/api.h. It checks what the library
// checks: attributes with their types and counts, finalization, sizes that fit together, the promised alignment, workspace, the
// context, that a handle and a plan serve one thread at a time, and that none is made while a stream captures. It computes
// convolutions and graphs of products, maps and reductions in double on the memory of the mock driver that TENON_CUDA_DRIVER names,
// at once or when a graph is launched. A call overwrites its workspace, so that another use of that memory shows. Calls fail on
// request (cudnn_mock.h has the controls).
#include "tests/mocks/cudnn/cudnn_mock_state.h"

#define TN_DNN TN_CONTROL int

// Declares the functions as the list has them, so that a definition that differs does not compile.
extern "C" {
#define X(name, ...) __attribute__((visibility("default"))) int name(__VA_ARGS__);
TENON_CUDNN_FUNCTIONS(X)
#undef X
}

namespace {

int finalize_tensor(const Object& o) {
  const Array a = array_of(o);
  const auto alignment = value_of<int64_t>(o, kDnnTensorAlignment);
  if (a.strides.size() != a.dims.size()) return fault("as many strides as dims");
  for (int64_t d : a.dims)
    if (d <= 0) return fault("a tensor without elements");
  for (int64_t s : a.strides)
    if (s <= 0) return fault("a stride that is none");
  if (alignment <= 0 || alignment % item_size(a.type)) return fault("an alignment of less than an element");
  return kDnnSuccess;
}

int finalize_operation(const Object& o) {
  Operation op;
  if (!operation_of(o, op)) return kDnnBadParam;
  const Job job = job_of(op);
  for (const Array* a : {&job.x, &job.w, &job.y})
    if (!a->layout()) return fault("a tensor of neither order, or not dense");
  const bool wide = job.x.type == kDnnF64;
  const int alpha = op.backward ? kDnnBackwardAlpha : kDnnForwardAlpha,
            beta = op.backward ? kDnnBackwardBeta : kDnnForwardBeta;
  const int type = wide ? kDnnTypeDouble : kDnnTypeFloat;
  if (o.values.at(alpha).type != type || o.values.at(beta).type != type)
    return fault("factors of a type that does not fit");
  if ((wide ? value_of<double>(o, alpha) : double{value_of<float>(o, alpha)}) != 1 ||
      (wide ? value_of<double>(o, beta) : double{value_of<float>(o, beta)}) != 0)
    return fault("factors that nobody needs");
  if (value_of<int32_t>(*op.convolution, kDnnConvolutionCompute) != (wide ? kDnnF64 : kDnnF32))
    return fault("a type of computation that does not fit");
  const std::string wrong = job.check();
  return wrong.empty() ? int{kDnnSuccess} : fault(wrong);
}

int64_t alignment_of(const Call& call) {
  return value_of<int64_t>(*call.tensors.begin()->second, kDnnTensorAlignment);
}

int finalize(Object& o) {
  State& s = state();
  for (const Rule& r : kRules)
    if (r.descriptor == o.type && r.least && !o.values.count(r.attribute))
      return fault(cat("attribute ", r.attribute, " is missing"));
  switch (o.type) {
    case kDnnTensor: return finalize_tensor(o);
    case kDnnConvolution: {
      const auto axes = value_of<int64_t>(o, kDnnConvolutionAxes);
      for (int a : {kDnnConvolutionStrides, kDnnConvolutionDilations, kDnnConvolutionPaddingBefore,
                    kDnnConvolutionPaddingAfter})
        if (o.values.at(a).count != axes) return fault("a list for every axis of space");
      if (value_of<int32_t>(o, kDnnConvolutionModeIs) != kDnnCrossCorrelation)
        return fault("a kernel turned around");
      return kDnnSuccess;
    }
    case kDnnConvolutionForward:
    case kDnnConvolutionBackwardData: return finalize_operation(o);
    case kDnnGraph: {
      if (!s.handles.count(value_of<const Handle*>(o, kDnnGraphHandle)))
        return fault("a handle that is none");
      return call_of(o) ? kDnnSuccess : kDnnBadParam;
    }
    case kDnnPointwise:
    case kDnnPointwiseOperation:
    case kDnnProduct:
    case kDnnProductOperation:
    case kDnnReduction:
    case kDnnReductionOperation: return kDnnSuccess;
    case kDnnHeuristics: {
      const auto mode = value_of<int32_t>(o, kDnnHeuristicsMode);
      if (State::captures()) return fault("engines are asked for while a stream captures");
      if (mode != kDnnModeA && mode != kDnnFallback)
        return fault("a mode of heuristics that is not asked for");
      return part_of(o, kDnnHeuristicsGraph, kDnnGraph) ? kDnnSuccess : kDnnBadParam;
    }
    case kDnnPlan: {
      const Object* config = part_of(o, kDnnPlanEngineConfig, kDnnEngineConfig);
      const auto* handle = value_of<const Handle*>(o, kDnnPlanHandle);
      if (!config) return kDnnBadParam;
      if (State::captures()) return fault("a plan is made while a stream captures");
      if (!s.handles.count(handle)) return fault("a handle that is none");
      if (handle->context != State::current_context()) return fault("the context of another device");
      o.engine = config->engine;
      o.graph = config->graph;
      const auto planned = call_of(*o.graph);
      if (!planned) return kDnnBadParam;
      if (alignment_of(*planned) < o.engine->aligned) return kDnnNotSupported;
      return o.engine->fails;
    }
    case kDnnVariantPack: return kDnnSuccess;
    default: return fault(cat("a descriptor of type ", o.type, " is finalized"));
  }
}

Object* object_of(DnnDescriptor descriptor) {
  auto* o = static_cast<Object*>(descriptor);
  return state().objects.count(o) ? o : nullptr;
}

template <class T>
int hand_out(const std::vector<T>& from, int64_t most, int64_t* count, void* values) {
  *count = static_cast<int64_t>(from.size());
  if (values) std::copy_n(from.begin(), std::min(most, *count), static_cast<T*>(values));
  return kDnnSuccess;
}

int get(const Object& o, int attribute, int type, int64_t most, int64_t* count, void* values) {
  const std::pair<int, int> asked{attribute, type};
  if (o.type == kDnnHeuristics && o.final &&
      asked == std::pair{int{kDnnHeuristicsResults}, int{kDnnTypeDescriptor}}) {
    const auto& list = state().engines[value_of<int32_t>(o, kDnnHeuristicsMode) == kDnnFallback];
    *count = static_cast<int64_t>(list.size());
    for (int64_t i = 0; values && i < std::min(most, *count); ++i) {
      Object* config = object_of(static_cast<DnnDescriptor*>(values)[i]);
      if (!config || config->type != kDnnEngineConfig || config->final)
        return fault("results need new configurations");
      config->engine = &list[static_cast<size_t>(i)];
      config->graph = value_of<const Object*>(o, kDnnHeuristicsGraph);
      config->final = true;
    }
    return kDnnSuccess;
  }
  if (o.type == kDnnEngineConfig && o.final &&
      asked == std::pair{int{kDnnEngineConfigEngine}, int{kDnnTypeDescriptor}}) {
    Object* engine = object_of(*static_cast<DnnDescriptor*>(values));
    if (!engine || engine->type != kDnnEngine || engine->final || most != 1)
      return fault("an engine needs a new one");
    engine->engine = o.engine;
    engine->final = true;
    *count = 1;
    return kDnnSuccess;
  }
  if (o.type == kDnnEngine && o.final && asked == std::pair{int{kDnnEngineNumerics}, int{kDnnTypeNumerics}})
    return hand_out(o.engine->numerics, most, count, values);
  if (o.type == kDnnEngine && o.final && asked == std::pair{int{kDnnEngineBehavior}, int{kDnnTypeBehavior}})
    return hand_out(o.engine->behavior, most, count, values);
  if (o.type == kDnnPlan && o.final && asked == std::pair{int{kDnnPlanWorkspace}, int{kDnnTypeInt64}})
    return hand_out(std::vector<int64_t>{o.engine->workspace}, most, count, values);
  return fault(cat("nobody can get attribute ", attribute, " of a descriptor of type ", o.type));
}

int execute(Handle& handle, Object& plan, const Object& pack, std::unique_lock<std::mutex>& guard) {
  State& s = state();
  if (handle.context != State::current_context()) return fault("the context of another device");
  if (handle.setter != std::this_thread::get_id()) return fault("another thread set the handle's stream");
  if (value_of<const Handle*>(plan, kDnnPlanHandle) != &handle) return fault("a plan of another handle");
  if (handle.busy || plan.busy) return fault("a handle or a plan that two threads use");
  if (!s.objects.count(plan.graph)) return fault("the graph of a plan is gone");
  const auto planned = call_of(*plan.graph);
  if (!planned) return kDnnBadParam;
  const auto ids = list_of<int64_t>(pack, kDnnPackIds);
  const auto pointers = list_of<char*>(pack, kDnnPackPointers);
  if (ids.size() != pointers.size() || ids.size() != planned->tensors.size())
    return fault("pointers that are not those of the graph");
  std::map<int64_t, char*> data;
  std::map<int64_t, int64_t> bytes;
  auto numbers = std::make_shared<std::map<int64_t, float>>();  // copied at the time of the call
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!planned->tensors.count(ids[i])) return fault("a tensor that is not the graph's");
    const Object& tensor = *planned->tensors.at(ids[i]);
    data[ids[i]] = pointers[i];
    if (says(tensor, kDnnTensorIsNumber)) {
      std::memcpy(&(*numbers)[ids[i]], pointers[i], sizeof(float));
      data[ids[i]] = reinterpret_cast<char*>(&(*numbers)[ids[i]]);
      continue;
    }
    const auto alignment = static_cast<uintptr_t>(value_of<int64_t>(tensor, kDnnTensorAlignment));
    if (!pointers[i] || reinterpret_cast<uintptr_t>(pointers[i]) % alignment)
      return fault("a pointer less aligned than promised");
    bytes[ids[i]] = array_of(tensor).bytes();
    if (!s.on_device(pointers[i], bytes[ids[i]])) return fault("a tensor that is not in the device's memory");
  }
  for (const auto& [id, size] : bytes)
    if (id != planned->result && data[id] < data[planned->result] + bytes[planned->result] &&
        data[planned->result] < data[id] + size)
      return fault("the result lies in an operand");
  const int64_t workspace_needed = plan.engine->workspace;
  auto* workspace = value_of<char*>(pack, kDnnPackWorkspace);
  if (workspace_needed &&
      (!s.on_device(workspace, workspace_needed) || reinterpret_cast<uintptr_t>(workspace) % 256))
    return fault("workspace that is not the device's, or not aligned");
  s.log += cat(planned->text, ", engine ", plan.engine->name, " aligned ", alignment_of(*planned), " stream ",
               reinterpret_cast<uintptr_t>(handle.stream), "\n");
  handle.busy = plan.busy = true;
  guard.unlock();
  const auto run = [workspace_needed, workspace, data, numbers, does = planned->run] {
    if (workspace_needed) std::memset(workspace, 0xa5, static_cast<size_t>(workspace_needed));
    does(data);
  };
  State::queue(handle.stream, run, planned->text);
  guard.lock();
  handle.busy = plan.busy = false;
  return kDnnSuccess;
}

}  // namespace

TN_CONTROL size_t cudnnGetVersion() { return static_cast<size_t>(state().settings["version"]); }

TN_CONTROL const char* cudnnGetErrorString(int status) {
  switch (status) {
    case kDnnSuccess: return "CUDNN_STATUS_SUCCESS";
    case kDnnNotInitialized: return "CUDNN_STATUS_NOT_INITIALIZED";
    case kDnnBadParam: return "CUDNN_STATUS_BAD_PARAM";
    case kDnnNotSupported: return "CUDNN_STATUS_NOT_SUPPORTED";
    case kDnnInternalError: return "CUDNN_STATUS_INTERNAL_ERROR";
    case kDnnExecutionFailed: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "";
  }
}
TN_CONTROL void cudnnGetLastErrorString(char* text, size_t bytes) {
  const std::lock_guard guard(state().lock);
  std::strncpy(text, state().last.c_str(), bytes);
}

TN_DNN cudnnCreate(DnnHandle* handle) {
  return call("cudnnCreate", [&](auto&) {
    const void* context = State::current_context();
    if (!context) return int{kDnnNotInitialized};
    if (State::captures()) return fault("a handle is made while a stream captures");
    auto* h = new Handle{context};
    state().handles.insert(h);
    return *handle = reinterpret_cast<DnnHandle>(h), int{kDnnSuccess};
  });
}
TN_DNN cudnnDestroy(DnnHandle handle) {
  return call("cudnnDestroy", [&](auto&) {
    auto* h = reinterpret_cast<Handle*>(handle);
    if (!state().handles.erase(h)) return fault("a handle is destroyed that is none");
    if (h->busy) return fault("a handle is destroyed in use");
    delete h;
    return int{kDnnSuccess};
  });
}
TN_DNN cudnnSetStream(DnnHandle handle, DnnStream stream) {
  return call("cudnnSetStream", [&](auto&) {
    auto* h = reinterpret_cast<Handle*>(handle);
    if (!state().handles.count(h)) return fault("a handle that is none");
    if (h->busy) return fault("a handle that two threads use");
    h->stream = stream;
    h->setter = std::this_thread::get_id();
    return int{kDnnSuccess};
  });
}

TN_DNN cudnnBackendCreateDescriptor(int type, DnnDescriptor* descriptor) {
  return call("cudnnBackendCreateDescriptor", [&](auto&) {
    auto* o = new Object{type};
    state().objects.insert(o);
    return *descriptor = o, int{kDnnSuccess};
  });
}
TN_DNN cudnnBackendDestroyDescriptor(DnnDescriptor descriptor) {
  return call("cudnnBackendDestroyDescriptor", [&](auto&) {
    const Object* o = object_of(descriptor);
    if (!o) return fault("a descriptor is destroyed that is none");
    if (o->busy) return fault("a plan is destroyed in use");
    state().objects.erase(o);
    delete o;
    return int{kDnnSuccess};
  });
}
TN_DNN cudnnBackendSetAttribute(DnnDescriptor descriptor, int attribute, int type, int64_t count,
                                const void* values) {
  return call("cudnnBackendSetAttribute", [&](auto&) {
    Object* o = object_of(descriptor);
    if (!o || o->final) return fault("no descriptor, or a finalized one");
    for (const Rule& r : kRules) {
      if (r.descriptor != o->type || r.attribute != attribute) continue;
      const bool fits = r.type == type || (r.type == kDnnTypeFloat && type == kDnnTypeDouble);
      if (!fits || count < r.least || count > r.most || !values)
        return fault(cat("attribute ", attribute, " of type ", type, ", ", count, " of them"));
      o->values[attribute] = {
          type, count,
          std::string(static_cast<const char*>(values), item_of(type) * static_cast<size_t>(count))};
      return int{kDnnSuccess};
    }
    return fault(cat("descriptors of type ", o->type, " have no attribute ", attribute));
  });
}
TN_DNN cudnnBackendFinalize(DnnDescriptor descriptor) {
  return call("cudnnBackendFinalize", [&](auto&) {
    Object* o = object_of(descriptor);
    if (!o || o->final) return fault("no descriptor, or a finalized one");
    const int status = finalize(*o);
    o->final = status == kDnnSuccess;
    return status;
  });
}
TN_DNN cudnnBackendGetAttribute(DnnDescriptor descriptor, int attribute, int type, int64_t most,
                                int64_t* count, void* values) {
  return call("cudnnBackendGetAttribute", [&](auto&) {
    const Object* o = object_of(descriptor);
    return o && count ? get(*o, attribute, type, most, count, values) : fault("a descriptor that is none");
  });
}
TN_DNN cudnnBackendExecute(DnnHandle handle, DnnDescriptor plan, DnnDescriptor pack) {
  return call("cudnnBackendExecute", [&](auto& guard) {
    auto* h = reinterpret_cast<Handle*>(handle);
    Object *p = object_of(plan), *v = object_of(pack);
    if (!state().handles.count(h)) return fault("a handle that is none");
    if (!p || p->type != kDnnPlan || !p->final) return fault("a plan that is none");
    if (!v || v->type != kDnnVariantPack || !v->final) return fault("a pack that is none");
    return execute(*h, *p, *v, guard);
  });
}

TN_CONTROLS(tn_dnn_)
TN_CONTROL const char* tn_dnn_leaks() {
  State& s = state();
  const std::lock_guard guard(s.lock);
  std::string text = s.faults;
  if (!s.handles.empty()) text += cat(s.handles.size(), " handles alive\n");
  if (!s.objects.empty()) text += cat(s.objects.size(), " descriptors alive\n");
  return s.say(text);
}
TN_CONTROL void tn_dnn_reset() {
  const std::lock_guard guard(state().lock);
  state().reset();
}
TN_CONTROL void tn_dnn_set(const char* name, int value) { state().set(name, value); }
TN_CONTROL void tn_dnn_engines(const char* text) {
  const std::lock_guard guard(state().lock);
  state().plan_engines(text);
}
