// The part of cuDNN's interface that Tenon calls, as declared by us, so that no NVIDIA header is needed: numbers and one list
// of functions of its graph interface, in which everything is a descriptor with attributes. The list is read by Library
// (library.h), which resolves it at run time, by the mock (tests/cudnn_mock.cc), and by tests/cudnn_header.cc, which compares
// everything here with NVIDIA's cudnn_graph.h where that is installed. All of it is there since cuDNN 9.0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::cudnn {

using DnnHandle = struct DnnHandleTag*;  // of one device, for one thread at a time
using DnnDescriptor = void*;             // of any type
using DnnStream = struct DnnStreamTag*;  // the driver's

// Thousands tell the sort of a failure.
enum DnnStatus {
  kDnnSuccess = 0,
  kDnnNotInitialized = 1001,
  kDnnBadParam = 2000,
  kDnnNotSupported = 3000,
  kDnnInternalError = 4000,
  kDnnExecutionFailed = 5000,
};
constexpr bool is_not_supported(int status) { return status / 1000 == kDnnNotSupported / 1000; }

enum DnnDataType : int32_t { kDnnF32 = 0, kDnnF64 = 1, kDnnF16 = 2, kDnnBf16 = 9 };
enum DnnConvolutionMode : int32_t { kDnnCrossCorrelation = 1 };
enum DnnHeuristic : int32_t { kDnnFallback = 2, kDnnModeA = 3 };
enum DnnBehavior : int32_t { kDnnCompilesAtRunTime = 0 };
enum DnnNumerics : int32_t {
  kDnnTensorCore = 0,
  kDnnDownConverts = 1,      // inputs, to fewer bits
  kDnnReducedPrecision = 2,  // of sums
  kDnnNondeterministic = 4,
};
constexpr int kDnnMostNotes = 64;  // more than there are of any sort

enum DnnDescriptorType {
  kDnnConvolution = 1,
  kDnnEngine = 2,
  kDnnEngineConfig = 3,
  kDnnHeuristics = 4,
  kDnnPlan = 5,
  kDnnConvolutionForward = 10,
  kDnnConvolutionBackwardData = 12,
  kDnnGraph = 15,
  kDnnVariantPack = 16,
  kDnnTensor = 17,
};

enum DnnType {
  kDnnTypeHandle = 0,
  kDnnTypeDataType = 1,
  kDnnTypeInt64 = 3,
  kDnnTypeFloat = 4,
  kDnnTypeDouble = 5,
  kDnnTypePointer = 6,
  kDnnTypeConvolutionMode = 7,
  kDnnTypeHeuristic = 8,
  kDnnTypeNumerics = 11,
  kDnnTypeDescriptor = 15,
  kDnnTypeBehavior = 19,
};

enum DnnAttribute {
  kDnnConvolutionCompute = 100,  // data type
  kDnnConvolutionModeIs = 101,
  kDnnConvolutionDilations = 102,  // int64, one per axis of space, and so are the next three
  kDnnConvolutionStrides = 103,
  kDnnConvolutionPaddingAfter = 104,
  kDnnConvolutionPaddingBefore = 105,
  kDnnConvolutionAxes = 106,  // int64: how many

  kDnnHeuristicsMode = 200,
  kDnnHeuristicsGraph = 201,
  kDnnHeuristicsResults = 202,  // engine configurations, the best first

  kDnnEngineConfigEngine = 300,

  kDnnPlanHandle = 400,
  kDnnPlanEngineConfig = 401,
  kDnnPlanWorkspace = 402,  // int64, bytes

  kDnnForwardAlpha = 700,  // float or double
  kDnnForwardBeta = 701,
  kDnnForwardConvolution = 702,
  kDnnForwardW = 703,
  kDnnForwardX = 704,
  kDnnForwardY = 705,
  kDnnBackwardAlpha = 706,
  kDnnBackwardBeta = 707,
  kDnnBackwardConvolution = 708,
  kDnnBackwardW = 709,
  kDnnBackwardDx = 710,
  kDnnBackwardDy = 711,

  kDnnGraphHandle = 800,
  kDnnGraphOperations = 801,

  kDnnTensorAlignment = 900,  // int64, bytes
  kDnnTensorDataType = 901,
  kDnnTensorDims = 902,     // int64: N, C, then space; of weights O, I / groups, then space
  kDnnTensorStrides = 903,  // int64, elements
  kDnnTensorId = 906,       // int64

  kDnnPackIds = 1000,       // int64, of the tensors
  kDnnPackPointers = 1001,  // where they are, in the same order
  kDnnPackWorkspace = 1003,

  kDnnEngineNumerics = 1303,  // notes
  kDnnEngineBehavior = 1305,
};

// X(name, parameters...): functions that return a status.
#define TENON_CUDNN_FUNCTIONS(X)                                                                \
  X(cudnnCreate, DnnHandle* handle)                                                             \
  X(cudnnDestroy, DnnHandle handle)                                                             \
  X(cudnnSetStream, DnnHandle handle, DnnStream stream)                                         \
  X(cudnnBackendCreateDescriptor, int type, DnnDescriptor* descriptor)                          \
  X(cudnnBackendDestroyDescriptor, DnnDescriptor descriptor)                                    \
  X(cudnnBackendFinalize, DnnDescriptor descriptor)                                             \
  X(cudnnBackendSetAttribute, DnnDescriptor descriptor, int attribute, int type, int64_t count, \
    const void* values)                                                                         \
  X(cudnnBackendGetAttribute, DnnDescriptor descriptor, int attribute, int type, int64_t most,  \
    int64_t* count, void* values)                                                               \
  X(cudnnBackendExecute, DnnHandle handle, DnnDescriptor plan, DnnDescriptor pack)

}  // namespace tenon::cudnn
