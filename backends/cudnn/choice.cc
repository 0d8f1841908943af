// See choice.h.
#include "backends/cudnn/choice.h"

#include <algorithm>

#include "src/base/recent.h"

namespace tenon::cudnn {
namespace {

constexpr size_t kMostChoices = 4096;
constexpr int64_t kIds[] = {1, 2, 3};  // of x, w and y

Recent<const Choice>& kept_choices() {
  static auto& kept = *new Recent<const Choice>(kMostChoices);  // steps may outlive static destruction
  return kept;
}

DnnDataType library_type(DType t) {
  switch (t) {
    case DType::f64: return kDnnF64;
    case DType::f16: return kDnnF16;
    case DType::bf16: return kDnnBf16;
    default: return kDnnF32;
  }
}

struct Notes {
  bool fits = true, compiles = false;
};
Result<Notes> notes_of(const Library& library, const Descriptor& config, const Problem& problem) {
  TENON_ASSIGN(const Descriptor engine, Descriptor::make(library, kDnnEngine, "an engine"));
  DnnDescriptor raw = engine.raw();  // is filled in
  TENON_TRY(config.get(kDnnEngineConfigEngine, kDnnTypeDescriptor, 1, &raw).status());
  int32_t list[kDnnMostNotes] = {};
  Notes notes;
  TENON_ASSIGN(int64_t count, engine.get(kDnnEngineBehavior, kDnnTypeBehavior, kDnnMostNotes, list));
  for (int64_t i = 0; i < std::min<int64_t>(count, kDnnMostNotes); ++i)
    notes.compiles = notes.compiles || list[i] == kDnnCompilesAtRunTime;
  TENON_ASSIGN(count, engine.get(kDnnEngineNumerics, kDnnTypeNumerics, kDnnMostNotes, list));
  for (int64_t i = 0; i < std::min<int64_t>(count, kDnnMostNotes); ++i)
    if (list[i] == kDnnNondeterministic || list[i] == kDnnDownConverts || list[i] == kDnnReducedPrecision ||
        (list[i] == kDnnTensorCore && problem.dtype == DType::f32 && !problem.tf32))
      notes.fits = false;
  return notes;
}

}  // namespace

Choice::Choice(Handles& handles, const Problem& problem, int64_t alignment, int64_t most_workspace)
    : handles_(handles), problem_(problem), alignment_(alignment), most_workspace_(most_workspace) {}

Status Choice::describe(const Handle& handle) {
  const Library& l = handles_.library;
  const Problem& p = problem_;
  const bool wide = p.dtype == DType::f64;
  const std::vector<int64_t>* dims[] = {&p.x, &p.w, &p.y};
  const char* names[] = {"its x", "its weights", "its y"};
  for (int t = 0; t < Work::kTensors; ++t) {
    TENON_ASSIGN(Descriptor tensor, Descriptor::make(l, kDnnTensor, names[t]));
    TENON_TRY(tensor.set(kDnnTensorId, kDnnTypeInt64, kIds[t]));
    TENON_TRY(tensor.set(kDnnTensorDataType, kDnnTypeDataType, library_type(p.dtype)));
    TENON_TRY(tensor.set(kDnnTensorAlignment, kDnnTypeInt64, alignment_));
    TENON_TRY(tensor.set(kDnnTensorDims, kDnnTypeInt64, *dims[t]));
    TENON_TRY(tensor.set(kDnnTensorStrides, kDnnTypeInt64, p.strides_of(*dims[t])));
    TENON_TRY(tensor.finalize());
    parts_.push_back(std::move(tensor));
  }
  TENON_ASSIGN(Descriptor convolution, Descriptor::make(l, kDnnConvolution, "the convolution"));
  TENON_TRY(convolution.set(kDnnConvolutionAxes, kDnnTypeInt64, static_cast<int64_t>(p.strides.size())));
  TENON_TRY(convolution.set(kDnnConvolutionCompute, kDnnTypeDataType, wide ? kDnnF64 : kDnnF32));
  TENON_TRY(convolution.set(kDnnConvolutionModeIs, kDnnTypeConvolutionMode, kDnnCrossCorrelation));
  TENON_TRY(convolution.set(kDnnConvolutionStrides, kDnnTypeInt64, p.strides));
  TENON_TRY(convolution.set(kDnnConvolutionDilations, kDnnTypeInt64, p.dilations));
  TENON_TRY(convolution.set(kDnnConvolutionPaddingBefore, kDnnTypeInt64, p.low));
  TENON_TRY(convolution.set(kDnnConvolutionPaddingAfter, kDnnTypeInt64, p.high));
  TENON_TRY(convolution.finalize());

  const bool back = p.transposed;
  TENON_ASSIGN(
      Descriptor operation,
      Descriptor::make(l, back ? kDnnConvolutionBackwardData : kDnnConvolutionForward, "its operation"));
  TENON_TRY(operation.set(back ? kDnnBackwardConvolution : kDnnForwardConvolution, convolution));
  TENON_TRY(operation.set(back ? kDnnBackwardDy : kDnnForwardX, parts_[0]));
  TENON_TRY(operation.set(back ? kDnnBackwardW : kDnnForwardW, parts_[1]));
  TENON_TRY(operation.set(back ? kDnnBackwardDx : kDnnForwardY, parts_[2]));
  for (const auto& [attribute, value] : {std::pair{back ? kDnnBackwardAlpha : kDnnForwardAlpha, 1.0},
                                         {back ? kDnnBackwardBeta : kDnnForwardBeta, 0.0}}) {
    if (wide)
      TENON_TRY(operation.set(attribute, kDnnTypeDouble, value));
    else
      TENON_TRY(operation.set(attribute, kDnnTypeFloat, static_cast<float>(value)));
  }
  TENON_TRY(operation.finalize());
  parts_.push_back(std::move(convolution));

  TENON_ASSIGN(Descriptor graph, Descriptor::make(l, kDnnGraph, "its graph"));
  TENON_TRY(graph.set(kDnnGraphHandle, kDnnTypeHandle, handle.raw()));
  TENON_TRY(graph.set(kDnnGraphOperations, operation));
  const int status = graph.finalize_status();
  if (is_not_supported(status))
    return unsupported("cuDNN has no " + p.text() + ": " +
                       graph.check("cudnnBackendFinalize", status).message());
  TENON_TRY(graph.check("cudnnBackendFinalize", status));
  parts_.push_back(std::move(operation));
  parts_.push_back(std::move(graph));
  return {};
}

// The best first; none where the library has none.
Result<std::vector<Descriptor>> Choice::engines(DnnHeuristic mode) const {
  const Library& l = handles_.library;
  std::vector<Descriptor> list;
  TENON_ASSIGN(Descriptor heuristics, Descriptor::make(l, kDnnHeuristics, "heuristics"));
  TENON_TRY(heuristics.set(kDnnHeuristicsGraph, parts_.back()));
  TENON_TRY(heuristics.set(kDnnHeuristicsMode, kDnnTypeHeuristic, mode));
  const int status = heuristics.finalize_status();
  if (is_not_supported(status)) return list;
  TENON_TRY(heuristics.check("cudnnBackendFinalize", status));
  TENON_ASSIGN(int64_t count, heuristics.get(kDnnHeuristicsResults, kDnnTypeDescriptor, 0, nullptr));
  std::vector<DnnDescriptor> raw;
  for (int64_t i = 0; i < count; ++i) {
    TENON_ASSIGN(Descriptor config, Descriptor::make(l, kDnnEngineConfig, "an engine's configuration"));
    raw.push_back(config.raw());
    list.push_back(std::move(config));
  }
  if (count == 0) return list;
  TENON_ASSIGN(count, heuristics.get(kDnnHeuristicsResults, kDnnTypeDescriptor, count, raw.data()));
  while (static_cast<int64_t>(list.size()) > count) list.pop_back();
  return list;
}

// Null, and what the library says, where it does not make one.
Result<std::unique_ptr<Descriptor>> Choice::plan(const Handle& handle, const Descriptor& config,
                                                 Status* refused) const {
  TENON_ASSIGN(Descriptor made, Descriptor::make(handles_.library, kDnnPlan, "its plan"));
  TENON_TRY(made.set(kDnnPlanHandle, kDnnTypeHandle, handle.raw()));
  TENON_TRY(made.set(kDnnPlanEngineConfig, config));
  *refused = made.finalize();
  std::unique_ptr<Descriptor> kept;
  if (refused->ok()) kept = std::make_unique<Descriptor>(std::move(made));
  return kept;
}

Result<bool> Choice::takes(const Handle& handle, Descriptor& config) {
  Status refused;
  TENON_ASSIGN(std::unique_ptr<Descriptor> made, plan(handle, config, &refused));
  int64_t workspace = 0;
  if (made) TENON_TRY(made->get(kDnnPlanWorkspace, kDnnTypeInt64, 1, &workspace).status());
  if (workspace > most_workspace_)
    refused = unsupported("an engine wants " + std::to_string(workspace) + " bytes of workspace, and " +
                          std::to_string(most_workspace_) + " are there");
  if (!refused.ok()) {
    if (refusal_.empty()) refusal_ = refused.message();
    return false;
  }
  config_.emplace(std::move(config));
  workspace_ = workspace;
  plan_of(handle) = std::move(made);
  return true;
}

Status Choice::choose(const Handle& handle) {
  std::vector<Descriptor> compiling;
  for (DnnHeuristic mode : {kDnnModeA, kDnnFallback}) {
    TENON_ASSIGN(std::vector<Descriptor> list, engines(mode));
    for (Descriptor& config : list) {
      TENON_ASSIGN(const Notes notes, notes_of(handles_.library, config, problem_));
      if (notes.fits && notes.compiles) {
        compiling.push_back(std::move(config));
      } else if (notes.fits) {
        TENON_ASSIGN(const bool taken, takes(handle, config));
        if (taken) return {};
      }
    }
  }
  for (Descriptor& config : compiling) {
    TENON_ASSIGN(const bool taken, takes(handle, config));
    if (taken) return {};
  }
  return unsupported("cuDNN has no engine for " + problem_.text() + " of tensors aligned to " +
                     std::to_string(alignment_) + " bytes" + (refusal_.empty() ? "" : ": " + refusal_));
}

Result<std::shared_ptr<const Choice>> Choice::of(Handles& handles, const Problem& problem, int64_t alignment,
                                                 int64_t most_workspace, cuda::CallTarget* target) {
  const auto entry =
      kept_choices().at(std::to_string(handles.device.ordinal()) + " " + std::to_string(alignment) + " " +
                        std::to_string(most_workspace) + " " + problem.key());
  std::lock_guard lock(entry->mutex);
  if (entry->value) return entry->value;
  const cuda::Current current(handles.device);
  TENON_TRY(current.status());
  auto made = std::make_shared<Choice>(handles, problem, alignment, most_workspace);
  if (target) TENON_TRY(made->may_make(*target));
  TENON_ASSIGN(const Handles::Lease handle, handles.lease());
  TENON_TRY(made->describe(*handle));
  TENON_TRY(made->choose(*handle));
  entry->value = std::move(made);
  return entry->value;
}

Status Choice::may_make(cuda::CallTarget& target) const {
  return target.may_make("cuDNN has no plan yet for " + problem_.text() + " of tensors aligned to " +
                         std::to_string(alignment_) + " bytes");
}

Status Choice::make_plan(const Handle& handle) const {
  if (plan_of(handle)) return {};
  std::lock_guard lock(making_);
  Status refused;
  TENON_ASSIGN(plan_of(handle), plan(handle, *config_, &refused));
  return refused;
}

Result<Choice::Ready> Choice::ready(cuda::CallTarget& target) const {
  Handles::Lease handle = handles_.idle();
  if (!handle || !plan_of(*handle)) {
    if (const Status may = may_make(target); may.ok()) {
      if (!handle) {
        TENON_ASSIGN(handle, handles_.lease());
      }
      TENON_TRY(make_plan(*handle));
    } else {
      std::vector<Handles::Lease> without;  // go back when another is found
      while (handle && !plan_of(*handle)) {
        without.push_back(std::move(handle));
        handle = handles_.idle();
      }
      if (!handle) return may;
    }
  }
  const DnnDescriptor plan = plan_of(*handle)->raw();
  return Ready{std::move(handle), plan};
}

Status Choice::run(const Ready& ready, const Pointers& p, void* stream) const {
  const Library& l = handles_.library;
  const DnnHandle handle = ready.handle->raw();
  TENON_TRY(l.check("cudnnSetStream", l.cudnnSetStream(handle, static_cast<DnnStream>(stream))));
  TENON_ASSIGN(Descriptor pack, Descriptor::make(l, kDnnVariantPack, "its pointers"));
  const void* pointers[] = {p.x, p.w, p.y};
  TENON_TRY(pack.set_raw(kDnnPackIds, kDnnTypeInt64, Work::kTensors, kIds));
  TENON_TRY(pack.set_raw(kDnnPackPointers, kDnnTypePointer, Work::kTensors, pointers));
  TENON_TRY(pack.set(kDnnPackWorkspace, kDnnTypePointer, p.workspace));
  TENON_TRY(pack.finalize());
  return l.check("cudnnBackendExecute", l.cudnnBackendExecute(handle, ready.plan, pack.raw()));
}

void forget_choices() { kept_choices().clear(); }

}  // namespace tenon::cudnn
