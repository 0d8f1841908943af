// Declares the part of the CUDA driver's interface that Tenon calls, so that no NVIDIA header is needed: handles, numbers,
// structures and one list of functions. Driver (driver.h) resolves the list at run time, the mock driver (tests/mocks/cuda/cuda_mock.cc)
// implements it, and tests/mocks/cuda/cuda_header.cc compares everything here with NVIDIA's cuda.h where that is installed. All of it
// exists since CUDA 12.0. Functions return 0 or an error number.
#pragma once

#include <cstddef>

namespace tenon::cuda {

using CuDevice = int;
using CuAddress = unsigned long long;  // an address in device memory
using CuContext = struct CuContextTag*;
using CuLibrary = struct CuLibraryTag*;
using CuKernel = struct CuKernelTag*;      // a kernel of a library, for every context
using CuFunction = struct CuFunctionTag*;  // a kernel in one context
using CuStream = struct CuStreamTag*;
using CuEvent = struct CuEventTag*;
using CuGraph = struct CuGraphTag*;
using CuGraphExec = struct CuGraphExecTag*;
using CuGraphNode = struct CuGraphNodeTag*;
using CuPool = struct CuPoolTag*;  // a stream-ordered memory pool

struct CuKernelNode {
  CuFunction function;
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  void** arguments;
  void** extra;
  CuKernel kernel;    // used if `function` is null
  CuContext context;  // used if `function` is null
};

struct CuPoolProperties {
  int allocation_type, handle_types;
  int location_type, location;
  void* security_attributes;
  size_t most_bytes;  // 0: no limit
  unsigned short usage;
  unsigned char reserved[54];
};
constexpr int kCuPinned = 1, kCuDeviceLocation = 1;  // values for CuPoolProperties
constexpr int kCuReleaseThreshold = 4;  // pool attribute, uint64_t: unused bytes that the pool keeps

constexpr int kCuOutOfMemory = 2, kCuNoDevice = 100, kCuNotFound = 500;
enum CuDeviceAttribute {
  kCuMultiprocessors = 16,
  kCuMemoryClock = 36,     // kHz
  kCuMemoryBusWidth = 37,  // bits
  kCuThreadsPerMultiprocessor = 39,
  kCuCapabilityMajor = 75,
  kCuCapabilityMinor = 76,
  kCuRegistersPerMultiprocessor = 82,
  kCuSharedBytesOptin = 97,
};
constexpr int kCuMaxDynamicSharedBytes = 8;  // kernel attribute
constexpr int kCuPointerDeviceOrdinal = 9;   // pointer attribute
constexpr int kCuNotCapturing = 0;           // capture status of a stream
constexpr unsigned kCuNonBlocking = 1;       // flag of a stream: it does not wait for the default stream
constexpr int kCuRelaxedCapture = 2;         // capture mode: permits all calls while the stream captures
constexpr unsigned kCuDefaultSharedBytes =
    48 << 10;  // most static and dynamic shared memory of a block without kCuMaxDynamicSharedBytes

// X(name, parameters...)
#define TENON_CUDA_DRIVER(X)                                                                                 \
  X(cuInit, unsigned flags)                                                                                  \
  X(cuDriverGetVersion, int* version)                                                                        \
  X(cuGetErrorName, int error, const char** text)                                                            \
  X(cuGetErrorString, int error, const char** text)                                                          \
  X(cuDeviceGetCount, int* count)                                                                            \
  X(cuDeviceGet, CuDevice* device, int ordinal)                                                              \
  X(cuDeviceGetName, char* name, int size, CuDevice device)                                                  \
  X(cuDeviceGetAttribute, int* value, int attribute, CuDevice device)                                        \
  X(cuDevicePrimaryCtxRetain, CuContext* context, CuDevice device)                                           \
  X(cuDevicePrimaryCtxRelease_v2, CuDevice device)                                                           \
  X(cuCtxGetCurrent, CuContext* context)                                                                     \
  X(cuCtxPushCurrent_v2, CuContext context)                                                                  \
  X(cuCtxPopCurrent_v2, CuContext* context)                                                                  \
  X(cuLibraryLoadData, CuLibrary* library, const void* code, int* jit_options, void** jit_values,            \
    unsigned jit_count, int* options, void** values, unsigned count)                                         \
  X(cuLibraryUnload, CuLibrary library)                                                                      \
  X(cuLibraryGetKernel, CuKernel* kernel, CuLibrary library, const char* name)                               \
  X(cuKernelSetAttribute, int attribute, int value, CuKernel kernel, CuDevice device)                        \
  X(cuKernelGetFunction, CuFunction* function, CuKernel kernel)                                              \
  X(cuLaunchKernel, CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,                  \
    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CuStream stream,            \
    void** arguments, void** extra)                                                                          \
  X(cuStreamIsCapturing, CuStream stream, int* status)                                                       \
  X(cuStreamGetCtx, CuStream stream, CuContext* context)                                                     \
  X(cuStreamSynchronize, CuStream stream)                                                                    \
  X(cuStreamCreate, CuStream* stream, unsigned flags)                                                        \
  X(cuStreamDestroy_v2, CuStream stream)                                                                     \
  X(cuStreamBeginCapture_v2, CuStream stream, int mode)                                                      \
  X(cuStreamEndCapture, CuStream stream, CuGraph* graph)                                                     \
  X(cuThreadExchangeStreamCaptureMode, int* mode)                                                            \
  X(cuPointerGetAttribute, void* value, int attribute, CuAddress address)                                    \
  X(cuMemAlloc_v2, CuAddress* address, size_t bytes)                                                         \
  X(cuMemFree_v2, CuAddress address)                                                                         \
  X(cuMemPoolCreate, CuPool* pool, const CuPoolProperties* properties)                                       \
  X(cuMemPoolSetAttribute, CuPool pool, int attribute, void* value)                                          \
  X(cuMemPoolTrimTo, CuPool pool, size_t bytes)                                                              \
  X(cuMemPoolDestroy, CuPool pool)                                                                           \
  X(cuMemAllocFromPoolAsync, CuAddress* address, size_t bytes, CuPool pool, CuStream stream)                 \
  X(cuMemFreeAsync, CuAddress address, CuStream stream)                                                      \
  X(cuMemcpyHtoDAsync_v2, CuAddress to, const void* from, size_t bytes, CuStream stream)                     \
  X(cuMemcpyDtoHAsync_v2, void* to, CuAddress from, size_t bytes, CuStream stream)                           \
  X(cuMemsetD8Async, CuAddress to, unsigned char value, size_t bytes, CuStream stream)                       \
  X(cuEventCreate, CuEvent* event, unsigned flags)                                                           \
  X(cuEventRecord, CuEvent event, CuStream stream)                                                           \
  X(cuEventElapsedTime, float* milliseconds, CuEvent begin, CuEvent end)                                     \
  X(cuEventDestroy_v2, CuEvent event)                                                                        \
  X(cuGraphCreate, CuGraph* graph, unsigned flags)                                                           \
  X(cuGraphAddKernelNode_v2, CuGraphNode* node, CuGraph graph, const CuGraphNode* after, size_t after_count, \
    const CuKernelNode* kernel)                                                                              \
  X(cuGraphAddChildGraphNode, CuGraphNode* node, CuGraph graph, const CuGraphNode* after,                    \
    size_t after_count, CuGraph child)                                                                       \
  X(cuGraphInstantiateWithFlags, CuGraphExec* exec, CuGraph graph, unsigned long long flags)                 \
  X(cuGraphExecKernelNodeSetParams_v2, CuGraphExec exec, CuGraphNode node, const CuKernelNode* kernel)       \
  X(cuGraphExecChildGraphNodeSetParams, CuGraphExec exec, CuGraphNode node, CuGraph child)                   \
  X(cuGraphLaunch, CuGraphExec exec, CuStream stream)                                                        \
  X(cuGraphExecDestroy, CuGraphExec exec)                                                                    \
  X(cuGraphDestroy, CuGraph graph)

}  // namespace tenon::cuda
