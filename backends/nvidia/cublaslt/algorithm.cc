// See algorithm.h.
#include "backends/nvidia/cublaslt/algorithm.h"

#include "backends/library/kept_algorithms.h"

namespace tenon::cublaslt {
namespace {

int library_type(DType t) {
  switch (t) {
    case DType::f64: return kLtF64;
    case DType::f16: return kLtF16;
    case DType::bf16: return kLtBf16;
    default: return kLtF32;
  }
}

uint32_t library_epilogue(const Problem& p) {
  uint32_t flags = 0;
  if (p.bias) flags |= kLtBias;
  if (p.activation == Activation::relu) flags |= kLtRelu;
  if (p.activation == Activation::gelu) flags |= kLtGelu;
  return flags ? flags : kLtNoEpilogue;
}

}  // namespace

Algorithm::Algorithm(const Handle& handle, const Problem& problem)
    : handle_(handle),
      problem_(problem),
      a_(handle.library(), &Library::cublasLtMatrixLayoutDestroy),
      b_(handle.library(), &Library::cublasLtMatrixLayoutDestroy),
      c_(handle.library(), &Library::cublasLtMatrixLayoutDestroy),
      d_(handle.library(), &Library::cublasLtMatrixLayoutDestroy) {}

Algorithm::~Algorithm() { delete spare_.load(); }

Status Algorithm::describe(const Problem& p) {
  const Library& l = handle_.library();
  auto layout = [&](Descriptor<LtLayout>& place, const Matrix& m) -> Status {
    TENON_TRY(l.cublasLtMatrixLayoutCreate(place.place(), library_type(p.dtype),
                                           static_cast<uint64_t>(m.rows), static_cast<uint64_t>(m.columns),
                                           m.ld));
    if (p.batch == 1) return {};
    const auto count = static_cast<int32_t>(p.batch);
    TENON_TRY(l.cublasLtMatrixLayoutSetAttribute(place.raw(), kLtBatchCount, &count, sizeof count));
    return l.cublasLtMatrixLayoutSetAttribute(place.raw(), kLtBatchStride, &m.batch_stride,
                                              sizeof m.batch_stride);
  };
  TENON_TRY(layout(a_, p.a));
  TENON_TRY(layout(b_, p.b));
  TENON_TRY(layout(c_, p.c));
  return layout(d_, p.d);
}

Result<std::unique_ptr<Descriptor<LtMatmul>>> Algorithm::matmul(const void* bias) const {
  const Library& l = handle_.library();
  const bool wide = problem_.dtype == DType::f64;
  const int compute = wide ? kLtCompute64F : problem_.tf32 ? kLtComputeTf32 : kLtCompute32F;
  auto m = std::make_unique<Descriptor<LtMatmul>>(l, &Library::cublasLtMatmulDescDestroy);
  TENON_TRY(l.cublasLtMatmulDescCreate(m->place(), compute, wide ? kLtF64 : kLtF32));
  const int32_t a = problem_.a.transposed ? kLtTransposed : kLtAsStored,
                b = problem_.b.transposed ? kLtTransposed : kLtAsStored;
  TENON_TRY(l.cublasLtMatmulDescSetAttribute(m->raw(), kLtTransposeA, &a, sizeof a));
  TENON_TRY(l.cublasLtMatmulDescSetAttribute(m->raw(), kLtTransposeB, &b, sizeof b));
  const uint32_t epilogue = library_epilogue(problem_);
  TENON_TRY(l.cublasLtMatmulDescSetAttribute(m->raw(), kLtEpilogue, &epilogue, sizeof epilogue));
  if (problem_.bias)
    TENON_TRY(l.cublasLtMatmulDescSetAttribute(m->raw(), kLtBiasPointer, &bias, sizeof bias));
  return m;
}

Status Algorithm::ask(int64_t alignment, int64_t most_workspace) {
  const Library& l = handle_.library();
  Descriptor<LtPreference> preference(l, &Library::cublasLtMatmulPreferenceDestroy);
  TENON_TRY(l.cublasLtMatmulPreferenceCreate(preference.place()));
  auto prefer = [&](int attribute, auto value) {
    return l.cublasLtMatmulPreferenceSetAttribute(preference.raw(), attribute, &value, sizeof value);
  };
  TENON_TRY(prefer(kLtMaxWorkspace, static_cast<uint64_t>(most_workspace)));
  for (int attribute : {kLtAlignmentA, kLtAlignmentB, kLtAlignmentC, kLtAlignmentD})
    TENON_TRY(prefer(attribute, static_cast<uint32_t>(alignment)));
  // Sums of 16-bit floats stay f32 until they are complete.
  const bool narrow = size_of(problem_.dtype) == 2;
  TENON_TRY(prefer(kLtReductionMask, narrow ? kLtReductionInComputeType : kLtAnyReduction));
  // The heuristic looks only at the alignment of the bias pointer, so any address of that alignment will do.
  TENON_ASSIGN(auto described, matmul(reinterpret_cast<const void*>((uintptr_t{1} << 20) +
                                                                    static_cast<uintptr_t>(alignment))));
  int count = 0;
  int status =
      l.cublasLtMatmulAlgoGetHeuristic.status_of(handle_.raw(), described->raw(), a_.raw(), b_.raw(),
                                                 c_.raw(), d_.raw(), preference.raw(), 1, &chosen_, &count);
  if (status == kLtSuccess) status = count == 0 ? int{kLtNotSupported} : chosen_.status;
  if (is_not_supported(status))
    return unsupported("cuBLASLt has no algorithm for " + problem_.text() + " of tensors aligned to " +
                       std::to_string(alignment) + " bytes");
  if (status != kLtSuccess) return l.failure("cublasLtMatmulAlgoGetHeuristic", status);
  if (chosen_.workspace > static_cast<size_t>(most_workspace))
    return environment("cuBLASLt wants more workspace than it was offered");
  spare_ = described.release();
  return {};
}

Result<std::shared_ptr<const Algorithm>> Algorithm::of(const Handle& handle, const Problem& problem,
                                                       int64_t alignment, int64_t most_workspace) {
  return library::kept_algorithms<Algorithm>().get(
      library::algorithm_key(handle.device().ordinal(), alignment, most_workspace, problem.key()),
      [&]() -> Result<std::shared_ptr<const Algorithm>> {
        const cuda::Current current(handle.device());
        TENON_TRY(current.status());
        auto made = std::make_shared<Algorithm>(handle, problem);
        TENON_TRY(made->describe(problem));
        TENON_TRY(made->ask(alignment, most_workspace));
        return std::shared_ptr<const Algorithm>(std::move(made));
      });
}

Status Algorithm::run(double alpha, double beta, const Pointers& p, void* stream) const {
  const Library& l = handle_.library();
  const float narrow[] = {static_cast<float>(alpha), static_cast<float>(beta)};
  const double wide[] = {alpha, beta};
  const bool is_wide = problem_.dtype == DType::f64;
  // If C and D share their memory, the library wants the same layout object for both.
  const LtLayout c = p.c == p.d && problem_.c == problem_.d ? d_.raw() : c_.raw();
  std::unique_ptr<Descriptor<LtMatmul>> own;
  LtMatmul described = nullptr;
  if (problem_.bias) {
    own.reset(spare_.exchange(nullptr));
    if (own) {
      TENON_TRY(l.cublasLtMatmulDescSetAttribute(own->raw(), kLtBiasPointer, &p.bias, sizeof p.bias));
    } else {
      TENON_ASSIGN(own, matmul(p.bias));
    }
    described = own->raw();
  } else {
    described = spare_.load(std::memory_order_acquire)->raw();
  }
  Status status = l.cublasLtMatmul(
      handle_.raw(), described, is_wide ? static_cast<const void*>(&wide[0]) : &narrow[0], p.a, a_.raw(), p.b,
      b_.raw(), is_wide ? static_cast<const void*>(&wide[1]) : &narrow[1], p.c, c, p.d, d_.raw(),
      &chosen_.algorithm, p.workspace, chosen_.workspace, static_cast<LtStream>(stream));
  if (own) own.reset(spare_.exchange(own.release()));
  return status;
}

}  // namespace tenon::cublaslt
