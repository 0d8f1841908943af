// Declares the part of cuBLASLt's interface that Tenon calls, so that no NVIDIA header is needed: descriptors, numbers, structures
// and one list of functions. Library (library.h) resolves the list at run time, the mock (tests/mocks/cublaslt/cublaslt_mock.cc) implements
// it, and tests/mocks/cublaslt/cublaslt_header.cc compares everything here with NVIDIA's cublasLt.h where that is installed. All of it
// exists since cuBLAS 12.0. Functions return a status, 0 for success.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::cublaslt {

using LtHandle = struct LtHandleTag*;          // belongs to one device
using LtMatmul = struct LtMatmulTag*;          // describes the operation
using LtLayout = struct LtLayoutTag*;          // describes a matrix or a batch of matrices
using LtPreference = struct LtPreferenceTag*;  // what the heuristic may choose
using LtStream = struct LtStreamTag*;          // a stream of the driver

// Opaque, but a value: it may be copied and kept.
struct LtAlgorithm {
  uint64_t data[8];
};
struct LtHeuristic {
  LtAlgorithm algorithm;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

enum LtStatus {
  kLtSuccess = 0,
  kLtNotInitialized = 1,
  kLtAllocFailed = 3,
  kLtInvalidValue = 7,
  kLtArchMismatch = 8,
  kLtMappingError = 11,
  kLtExecutionFailed = 13,
  kLtInternalError = 14,
  kLtNotSupported = 15,
};
constexpr bool is_not_supported(int status) { return status == kLtNotSupported || status == kLtArchMismatch; }

enum LtType { kLtF32 = 0, kLtF64 = 1, kLtF16 = 2, kLtBf16 = 14 };
enum LtCompute {
  kLtCompute32F = 68,
  kLtCompute64F = 70,
  kLtComputeTf32 = 77
};  // kLtCompute32F excludes TF32
enum LtOperation : int32_t { kLtAsStored = 0, kLtTransposed = 1 };

enum LtMatmulAttribute {
  kLtTransposeA = 3,   // int32_t
  kLtTransposeB = 4,   // int32_t
  kLtEpilogue = 7,     // uint32_t
  kLtBiasPointer = 8,  // void*
};
// Flags; a combination has the sum of their numbers.
enum LtEpilogueFlag : uint32_t { kLtRelu = 2, kLtBias = 4, kLtGelu = 32 };
constexpr uint32_t kLtNoEpilogue = 1;

enum LtLayoutAttribute {
  kLtBatchCount = 5,   // int32_t
  kLtBatchStride = 6,  // int64_t, elements
};

enum LtPreferenceAttribute {
  kLtMaxWorkspace = 1,   // uint64_t, bytes
  kLtReductionMask = 3,  // uint32_t
  kLtAlignmentA = 5,     // uint32_t, bytes; so are the next three
  kLtAlignmentB = 6,
  kLtAlignmentC = 7,
  kLtAlignmentD = 8,
};
// How partial sums over K may be combined. The schemes that kLtAnyReduction allows in addition, in place and in the workspace, round
// partial sums to the type of the result.
constexpr uint32_t kLtReductionInComputeType = 2, kLtAnyReduction = 7;

// X(name, parameters...): functions that return a status.
#define TENON_CUBLASLT_FUNCTIONS(X)                                                                        \
  X(cublasLtCreate, LtHandle* handle)                                                                      \
  X(cublasLtDestroy, LtHandle handle)                                                                      \
  X(cublasLtMatmulDescCreate, LtMatmul* matmul, int compute, int scale_type)                               \
  X(cublasLtMatmulDescDestroy, LtMatmul matmul)                                                            \
  X(cublasLtMatmulDescSetAttribute, LtMatmul matmul, int attribute, const void* value, size_t bytes)       \
  X(cublasLtMatrixLayoutCreate, LtLayout* layout, int type, uint64_t rows, uint64_t columns, int64_t ld)   \
  X(cublasLtMatrixLayoutDestroy, LtLayout layout)                                                          \
  X(cublasLtMatrixLayoutSetAttribute, LtLayout layout, int attribute, const void* value, size_t bytes)     \
  X(cublasLtMatmulPreferenceCreate, LtPreference* preference)                                              \
  X(cublasLtMatmulPreferenceDestroy, LtPreference preference)                                              \
  X(cublasLtMatmulPreferenceSetAttribute, LtPreference preference, int attribute, const void* value,       \
    size_t bytes)                                                                                          \
  X(cublasLtMatmulAlgoGetHeuristic, LtHandle handle, LtMatmul matmul, LtLayout a, LtLayout b, LtLayout c,  \
    LtLayout d, LtPreference preference, int wanted, LtHeuristic* algorithms, int* count)                  \
  X(cublasLtMatmul, LtHandle handle, LtMatmul matmul, const void* alpha, const void* a, LtLayout a_layout, \
    const void* b, LtLayout b_layout, const void* beta, const void* c, LtLayout c_layout, void* d,         \
    LtLayout d_layout, const LtAlgorithm* algorithm, void* workspace, size_t workspace_bytes,              \
    LtStream stream)

}  // namespace tenon::cublaslt
