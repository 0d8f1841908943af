// Compares backends/nvidia/cublaslt/api.h with NVIDIA's cublasLt.h: this file compiles only if they agree. It is empty if that
// header is not installed; CMake reports this.
#if __has_include(<cublasLt.h>)
#include "backends/nvidia/cublaslt/api.h"
#include "tests/support/same_call.h"

#include <cublasLt.h>

#include <cstddef>
#include <type_traits>

namespace tenon::cublaslt {
namespace {

static_assert(!alike<int, size_t>() && !alike<int*, char*>() && !alike<void*, int>());
static_assert(!Same<int(int), cublasStatus_t(int, int)>::value &&
              !Same<int(const char*), cublasStatus_t(char*)>::value);

#define X(name, ...) static_assert(Same<int(__VA_ARGS__), decltype(name)>::value, #name);
TENON_CUBLASLT_FUNCTIONS(X)
#undef X
static_assert(std::is_same_v<decltype(cublasLtGetVersion), size_t()>);
static_assert(std::is_same_v<decltype(cublasLtGetStatusName), const char*(cublasStatus_t)>);
static_assert(std::is_same_v<decltype(cublasLtGetStatusString), const char*(cublasStatus_t)>);

static_assert(sizeof(LtAlgorithm) == sizeof(cublasLtMatmulAlgo_t) &&
              alignof(LtAlgorithm) == alignof(cublasLtMatmulAlgo_t));
static_assert(sizeof(LtHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
#define SAME_OFFSET(ours, theirs)                                                                   \
  static_assert(offsetof(LtHeuristic, ours) == offsetof(cublasLtMatmulHeuristicResult_t, theirs) && \
                sizeof(LtHeuristic::ours) == sizeof(cublasLtMatmulHeuristicResult_t::theirs))
SAME_OFFSET(algorithm, algo);
SAME_OFFSET(workspace, workspaceSize);
SAME_OFFSET(status, state);
SAME_OFFSET(waves, wavesCount);
SAME_OFFSET(reserved, reserved);

#define SAME_VALUE(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
SAME_VALUE(kLtSuccess, CUBLAS_STATUS_SUCCESS);
SAME_VALUE(kLtNotInitialized, CUBLAS_STATUS_NOT_INITIALIZED);
SAME_VALUE(kLtAllocFailed, CUBLAS_STATUS_ALLOC_FAILED);
SAME_VALUE(kLtInvalidValue, CUBLAS_STATUS_INVALID_VALUE);
SAME_VALUE(kLtArchMismatch, CUBLAS_STATUS_ARCH_MISMATCH);
SAME_VALUE(kLtMappingError, CUBLAS_STATUS_MAPPING_ERROR);
SAME_VALUE(kLtExecutionFailed, CUBLAS_STATUS_EXECUTION_FAILED);
SAME_VALUE(kLtInternalError, CUBLAS_STATUS_INTERNAL_ERROR);
SAME_VALUE(kLtNotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
SAME_VALUE(kLtF32, CUDA_R_32F);
SAME_VALUE(kLtF64, CUDA_R_64F);
SAME_VALUE(kLtF16, CUDA_R_16F);
SAME_VALUE(kLtBf16, CUDA_R_16BF);
SAME_VALUE(kLtCompute32F, CUBLAS_COMPUTE_32F);
SAME_VALUE(kLtCompute64F, CUBLAS_COMPUTE_64F);
SAME_VALUE(kLtComputeTf32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME_VALUE(kLtAsStored, CUBLAS_OP_N);
SAME_VALUE(kLtTransposed, CUBLAS_OP_T);
SAME_VALUE(kLtTransposeA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME_VALUE(kLtTransposeB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME_VALUE(kLtEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME_VALUE(kLtBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME_VALUE(kLtNoEpilogue, CUBLASLT_EPILOGUE_DEFAULT);
SAME_VALUE(kLtRelu, CUBLASLT_EPILOGUE_RELU);
SAME_VALUE(kLtBias, CUBLASLT_EPILOGUE_BIAS);
SAME_VALUE(kLtRelu | kLtBias, CUBLASLT_EPILOGUE_RELU_BIAS);
SAME_VALUE(kLtGelu, CUBLASLT_EPILOGUE_GELU);
SAME_VALUE(kLtGelu | kLtBias, CUBLASLT_EPILOGUE_GELU_BIAS);
SAME_VALUE(kLtBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME_VALUE(kLtBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME_VALUE(kLtMaxWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME_VALUE(kLtReductionMask, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME_VALUE(kLtAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME_VALUE(kLtAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME_VALUE(kLtAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME_VALUE(kLtAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME_VALUE(kLtReductionInComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME_VALUE(kLtAnyReduction, CUBLASLT_REDUCTION_SCHEME_MASK);

}  // namespace
}  // namespace tenon::cublaslt
#endif
