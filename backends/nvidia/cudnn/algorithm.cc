// See algorithm.h.
#include "backends/nvidia/cudnn/algorithm.h"

#include <algorithm>

#include "backends/library/kept_algorithms.h"

namespace tenon::cudnn {
namespace {

constexpr size_t kMostPointers = 8;

}  // namespace

Algorithm::Algorithm(Handles& handles, std::shared_ptr<const Problem> problem, int64_t alignment)
    : handles_(handles), problem_(std::move(problem)), operations_(handles.library, alignment) {}

Status Algorithm::choose(const Handle& handle, int64_t most_workspace) {
  TENON_TRY(problem_->describe(operations_));
  for (int64_t id = 1; id <= operations_.tensors(); ++id) ids_.push_back(id);
  TENON_ASSIGN(Descriptor made, operations_.graph(handle.raw()));
  graph_.emplace(std::move(made));
  const Status finalized = graph_->finalize();
  if (finalized.code() == Code::unsupported) return finalized.at("cuDNN has no " + problem_->text());
  TENON_TRY(finalized);
  Status refused;
  TENON_ASSIGN(engine_, find_engine(handles_.library, {handle.raw()}, *graph_, problem_->tensor_cores(),
                                    most_workspace, &refused));
  if (!engine_) {
    const std::string none = "cuDNN has no engine for " + problem_->text() + " of tensors aligned to " +
                             std::to_string(operations_.alignment) + " bytes";
    return refused.ok() ? unsupported(none) : refused.at(none);
  }
  plan_of(handle) = std::move(engine_->plan);
  return {};
}

Result<std::shared_ptr<const Algorithm>> Algorithm::of(Handles& handles,
                                                       std::shared_ptr<const Problem> problem,
                                                       int64_t alignment, int64_t most_workspace,
                                                       cuda::CallTarget* target) {
  return library::kept_algorithms<Algorithm>().get(
      library::algorithm_key(handles.device.ordinal(), alignment, most_workspace, problem->key()),
      [&]() -> Result<std::shared_ptr<const Algorithm>> {
        const cuda::Current current(handles.device);
        TENON_TRY(current.status());
        const cuda::Relaxed relaxed(handles.device.driver());
        auto made = std::make_shared<Algorithm>(handles, std::move(problem), alignment);
        if (target) TENON_TRY(made->may_make(*target));
        TENON_ASSIGN(const Handles::Lease handle, handles.lease());
        TENON_TRY(made->choose(*handle, most_workspace));
        return std::shared_ptr<const Algorithm>(std::move(made));
      });
}

Status Algorithm::may_make(cuda::CallTarget& target) const {
  return target.may_make("cuDNN has no plan yet for " + problem_->text() + " of tensors aligned to " +
                         std::to_string(operations_.alignment) + " bytes");
}

Status Algorithm::make_plan(const Handle& handle) const {
  if (plan_of(handle)) return {};
  std::lock_guard lock(making_);
  const cuda::Relaxed relaxed(handles_.device.driver());
  Status refused;
  TENON_ASSIGN(plan_of(handle),
               cudnn::make_plan(handles_.library, {handle.raw()}, engine_->config, &refused));
  return refused;
}

Result<Algorithm::Ready> Algorithm::ready(cuda::CallTarget& target) const {
  Handles::Lease handle = handles_.idle();
  if (!handle || !plan_of(*handle)) {
    if (const Status may = may_make(target); may.ok()) {
      if (!handle) {
        TENON_ASSIGN(handle, handles_.lease());
      }
      TENON_TRY(make_plan(*handle));
    } else {
      std::vector<Handles::Lease> without;  // handles without a plan; returned at the end of the search
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

Status Algorithm::run(const Ready& ready, const Pointers& p, void* stream) const {
  const Library& l = handles_.library;
  const DnnHandle handle = ready.handle->raw();
  TENON_TRY(l.cudnnSetStream(handle, static_cast<DnnStream>(stream)));
  TENON_ASSIGN(Descriptor pack, Descriptor::make(l, kDnnVariantPack, "its pointers"));
  const void* pointers[kMostPointers];
  const size_t tensors = p.tensors.size(), all = tensors + p.numbers.size();
  TENON_CHECK(all == ids_.size() && all <= kMostPointers, "a call's tensors are those of its problem");
  std::copy(p.tensors.begin(), p.tensors.end(), pointers);
  for (size_t i = 0; i < p.numbers.size(); ++i) pointers[tensors + i] = &p.numbers[i];
  TENON_TRY(pack.set_raw(kDnnPackIds, kDnnTypeInt64, static_cast<int64_t>(all), ids_.data()));
  TENON_TRY(pack.set_raw(kDnnPackPointers, kDnnTypePointer, static_cast<int64_t>(all), pointers));
  TENON_TRY(pack.set(kDnnPackWorkspace, kDnnTypePointer, p.workspace));
  TENON_TRY(pack.finalize());
  return l.cudnnBackendExecute(handle, ready.plan, pack.raw());
}

}  // namespace tenon::cudnn
