// Compares backends/nvidia/device/driver_api.h with NVIDIA's cuda.h: this file compiles only if they agree. It is empty if that
// header is not installed; CMake reports this.
#if __has_include(<cuda.h>)
#include "backends/nvidia/device/driver_api.h"
#include "tests/support/same_call.h"

#include <cuda.h>

#include <cstddef>

namespace tenon::cuda {
namespace {

static_assert(!alike<int, unsigned long long>() && !alike<int*, char*>() && !alike<void*, int>());
static_assert(!Same<int(int), CUresult(int, int)>::value && !Same<int(const char*), CUresult(char*)>::value);

#define X(name, ...) static_assert(Same<int(__VA_ARGS__), decltype(name)>::value, #name);
TENON_CUDA_DRIVER(X)
#undef X

static_assert(sizeof(CuKernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS));
#define SAME_PLACE(ours, theirs)                                                             \
  static_assert(offsetof(CuKernelNode, ours) == offsetof(CUDA_KERNEL_NODE_PARAMS, theirs) && \
                alike<decltype(CuKernelNode::ours), decltype(CUDA_KERNEL_NODE_PARAMS::theirs)>())
SAME_PLACE(function, func);
SAME_PLACE(grid_x, gridDimX);
SAME_PLACE(grid_y, gridDimY);
SAME_PLACE(grid_z, gridDimZ);
SAME_PLACE(block_x, blockDimX);
SAME_PLACE(block_y, blockDimY);
SAME_PLACE(block_z, blockDimZ);
SAME_PLACE(shared_bytes, sharedMemBytes);
SAME_PLACE(arguments, kernelParams);
SAME_PLACE(extra, extra);
SAME_PLACE(kernel, kern);
SAME_PLACE(context, ctx);

static_assert(sizeof(CuPoolProperties) == sizeof(CUmemPoolProps) &&
              offsetof(CuPoolProperties, allocation_type) == offsetof(CUmemPoolProps, allocType) &&
              offsetof(CuPoolProperties, handle_types) == offsetof(CUmemPoolProps, handleTypes) &&
              offsetof(CuPoolProperties, location_type) ==
                  offsetof(CUmemPoolProps, location) + offsetof(CUmemLocation, type) &&
              offsetof(CuPoolProperties, location) ==
                  offsetof(CUmemPoolProps, location) + offsetof(CUmemLocation, id) &&
              offsetof(CuPoolProperties, most_bytes) == offsetof(CUmemPoolProps, maxSize) &&
              offsetof(CuPoolProperties, usage) == offsetof(CUmemPoolProps, usage) &&
              offsetof(CuPoolProperties, reserved) == offsetof(CUmemPoolProps, reserved));

static_assert(kCuOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && kCuNoDevice == CUDA_ERROR_NO_DEVICE &&
              kCuNotFound == CUDA_ERROR_NOT_FOUND);
#define SAME_NUMBER(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
SAME_NUMBER(kCuMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_NUMBER(kCuMemoryClock, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
SAME_NUMBER(kCuMemoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
SAME_NUMBER(kCuThreadsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
SAME_NUMBER(kCuCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_NUMBER(kCuCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_NUMBER(kCuRegistersPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
SAME_NUMBER(kCuSharedBytesOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_NUMBER(kCuMaxDynamicSharedBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_NUMBER(kCuPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_NUMBER(kCuNotCapturing, CU_STREAM_CAPTURE_STATUS_NONE);
SAME_NUMBER(kCuNonBlocking, CU_STREAM_NON_BLOCKING);
SAME_NUMBER(kCuRelaxedCapture, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_NUMBER(kCuPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_NUMBER(kCuDeviceLocation, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_NUMBER(kCuReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);

}  // namespace
}  // namespace tenon::cuda
#endif
