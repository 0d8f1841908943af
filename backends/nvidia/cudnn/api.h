// Declares the part of cuDNN's interface that Tenon calls, so that no NVIDIA header is needed: numbers and one list of functions of
// its graph interface, in which everything is a descriptor with attributes. Library (library.h) resolves the list at run time, the
// mock (tests/mocks/cudnn/cudnn_mock.cc) implements it, and tests/mocks/cudnn/cudnn_header.cc compares everything here with NVIDIA's
// cudnn_graph.h where that is installed. All of it exists since cuDNN 9.0, except device properties.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::cudnn {

using DnnHandle = struct DnnHandleTag*;  // belongs to one device; one thread at a time may use it
using DnnDescriptor = void*;             // of any type
using DnnStream = struct DnnStreamTag*;  // a stream of the driver

// The thousands of a status are the kind of failure.
enum DnnStatus {
  kDnnSuccess = 0,
  kDnnNotInitialized = 1001,
  kDnnBadParam = 2000,
  kDnnNotSupported = 3000,
  kDnnInternalError = 4000,  // includes out of memory
  kDnnExecutionFailed = 5000,
};
constexpr bool is_not_supported(int status) { return status / 1000 == kDnnNotSupported / 1000; }

enum DnnDataType : int32_t {
  kDnnF32 = 0,
  kDnnF64 = 1,
  kDnnF16 = 2,
  kDnnI32 = 4,
  kDnnBf16 = 9,
  kDnnBoolean = 11
};
enum DnnConvolutionMode : int32_t { kDnnCrossCorrelation = 1 };
enum DnnPointwise : int32_t {
  kDnnAdd = 0,
  kDnnMul = 1,
  kDnnDiv = 6,
  kDnnSub = 9,
  kDnnExp = 13,
  kDnnLog = 15,
  kDnnGreaterOrEqual = 303,
  kDnnIndex = 501,   // the index of an element along an axis
  kDnnSelect = 601,  // x where t is true, otherwise b
};
enum DnnReduction : int32_t { kDnnReduceAdd = 0, kDnnReduceMax = 3 };
enum DnnHeuristic : int32_t { kDnnFallback = 2, kDnnModeA = 3 };
enum DnnBehavior : int32_t { kDnnCompilesAtRunTime = 0 };
enum DnnNumerics : int32_t {
  kDnnTensorCore = 0,
  kDnnDownConverts = 1,      // converts inputs to fewer bits
  kDnnReducedPrecision = 2,  // sums with fewer bits
  kDnnNondeterministic = 4,
};
constexpr int kDnnMostNotes = 64;  // more than any list of notes has

enum DnnDescriptorType {
  kDnnPointwise = 0,
  kDnnConvolution = 1,
  kDnnEngine = 2,
  kDnnEngineConfig = 3,
  kDnnHeuristics = 4,
  kDnnPlan = 5,
  kDnnConvolutionForward = 10,
  kDnnConvolutionBackwardData = 12,
  kDnnPointwiseOperation = 13,
  kDnnGraph = 15,
  kDnnVariantPack = 16,
  kDnnTensor = 17,
  kDnnProduct = 18,  // a product of matrices
  kDnnProductOperation = 19,
  kDnnReduction = 21,
  kDnnReductionOperation = 22,
  kDnnDeviceProperties = 38,  // since 9.8
};

enum DnnType {
  kDnnTypeHandle = 0,
  kDnnTypeDataType = 1,
  kDnnTypeBool = 2,
  kDnnTypeInt64 = 3,
  kDnnTypeFloat = 4,
  kDnnTypeDouble = 5,
  kDnnTypePointer = 6,
  kDnnTypeConvolutionMode = 7,
  kDnnTypeHeuristic = 8,
  kDnnTypeNumerics = 11,
  kDnnTypePointwise = 14,
  kDnnTypeDescriptor = 15,
  kDnnTypeReduction = 18,
  kDnnTypeBehavior = 19,
  kDnnTypeChar = 24,
};

enum DnnAttribute {
  kDnnPointwiseMode = 0,
  kDnnPointwiseCompute = 1,  // data type
  kDnnPointwiseAxis = 9,     // int64, for kDnnIndex

  kDnnConvolutionCompute = 100,  // data type
  kDnnConvolutionModeIs = 101,
  kDnnConvolutionDilations = 102,  // int64, one per spatial axis; so are the next three
  kDnnConvolutionStrides = 103,
  kDnnConvolutionPaddingAfter = 104,
  kDnnConvolutionPaddingBefore = 105,
  kDnnConvolutionAxes = 106,  // int64: the number of spatial axes

  kDnnHeuristicsMode = 200,
  kDnnHeuristicsGraph = 201,
  kDnnHeuristicsResults = 202,  // engine configurations, the best first
  kDnnHeuristicsDevice = 204,   // device properties, if there is no handle

  kDnnEngineConfigEngine = 300,

  kDnnPlanHandle = 400,
  kDnnPlanEngineConfig = 401,
  kDnnPlanWorkspace = 402,  // int64, bytes
  kDnnPlanDevice = 407,     // device properties, if there is no handle

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

  kDnnPointwiseIs = 750,
  kDnnPointwiseX = 751,
  kDnnPointwiseB = 752,
  kDnnPointwiseY = 753,
  kDnnPointwiseT = 758,

  kDnnGraphHandle = 800,
  kDnnGraphOperations = 801,

  kDnnTensorAlignment = 900,  // int64, bytes
  kDnnTensorDataType = 901,
  kDnnTensorDims = 902,       // int64: N, C, spatial axes; weights: O, I / groups, spatial axes
  kDnnTensorStrides = 903,    // int64, elements
  kDnnTensorId = 906,         // int64
  kDnnTensorIsVirtual = 907,  // bool: the tensor has no memory outside the graph
  kDnnTensorIsNumber = 908,   // bool: its pointer is to host memory

  kDnnPackIds = 1000,       // int64, the ids of the tensors
  kDnnPackPointers = 1001,  // their addresses, in the same order
  kDnnPackWorkspace = 1003,

  kDnnEngineNumerics = 1303,  // notes
  kDnnEngineBehavior = 1305,

  kDnnProductCompute = 1500,  // data type
  kDnnProductA = 1520,
  kDnnProductB = 1521,
  kDnnProductC = 1522,
  kDnnProductIs = 1523,

  kDnnReductionMode = 1600,
  kDnnReductionCompute = 1601,  // data type
  kDnnReductionX = 1610,
  kDnnReductionY = 1611,
  kDnnReductionIs = 1612,

  kDnnDeviceJson = 2702,  // chars
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
