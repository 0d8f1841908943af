// A libcuda.so.1 whose functions return at once, for bench/gpu_call.cc, so that only Tenon's own cost of a call remains. It has one
// device, which reports itself as an H100. Its memory is addresses that nothing reads.
#include "backends/nvidia/device/driver_api.h"

#define TN_NULL extern "C" __attribute__((visibility("default"))) int

using namespace tenon::cuda;

namespace {
// Hands out a handle that nothing dereferences.
template <class Handle>
int give(Handle* to) {
  static char any;
  return *to = reinterpret_cast<Handle>(&any), 0;
}
}  // namespace

TN_NULL cuDriverGetVersion(int* version) { return *version = 13000, 0; }
TN_NULL cuGetErrorName(int, const char** text) { return *text = "", 0; }
TN_NULL cuGetErrorString(int, const char** text) { return *text = "", 0; }
TN_NULL cuDeviceGetCount(int* count) { return *count = 1, 0; }
TN_NULL cuDeviceGet(CuDevice* device, int) { return *device = 0, 0; }
TN_NULL cuDeviceGetName(char* name, int, CuDevice) { return name[0] = 'H', name[1] = 0, 0; }
TN_NULL cuDeviceGetAttribute(int* value, int attribute, CuDevice) {
  switch (attribute) {
    case kCuMultiprocessors: *value = 132; break;
    case kCuMemoryClock: *value = 2619000; break;
    case kCuMemoryBusWidth: *value = 5120; break;
    case kCuThreadsPerMultiprocessor: *value = 2048; break;
    case kCuCapabilityMajor: *value = 9; break;
    case kCuRegistersPerMultiprocessor: *value = 65536; break;
    case kCuSharedBytesOptin: *value = 232448; break;
    default: *value = 0;
  }
  return 0;
}
TN_NULL cuDevicePrimaryCtxRetain(CuContext* context, CuDevice) { return give(context); }
TN_NULL cuCtxGetCurrent(CuContext* context) { return give(context); }
TN_NULL cuCtxPopCurrent_v2(CuContext* context) { return give(context); }
TN_NULL cuLibraryLoadData(CuLibrary* library, const void*, int*, void**, unsigned, int*, void**, unsigned) {
  return give(library);
}
TN_NULL cuLibraryGetKernel(CuKernel* kernel, CuLibrary, const char*) { return give(kernel); }
TN_NULL cuKernelGetFunction(CuFunction* function, CuKernel) { return give(function); }
TN_NULL cuStreamIsCapturing(CuStream, int* status) { return *status = kCuNotCapturing, 0; }
TN_NULL cuStreamGetCtx(CuStream, CuContext* context) { return give(context); }
TN_NULL cuStreamCreate(CuStream* stream, unsigned) { return give(stream); }
TN_NULL cuStreamEndCapture(CuStream, CuGraph* graph) { return give(graph); }
TN_NULL cuPointerGetAttribute(void* value, int, CuAddress) { return *static_cast<int*>(value) = 0, 0; }
TN_NULL cuMemAlloc_v2(CuAddress* address, size_t) { return *address = 1 << 20, 0; }
TN_NULL cuMemPoolCreate(CuPool* pool, const CuPoolProperties*) { return give(pool); }
TN_NULL cuMemAllocFromPoolAsync(CuAddress* address, size_t, CuPool, CuStream) {
  return *address = 1 << 20, 0;
}
TN_NULL cuGraphCreate(CuGraph* graph, unsigned) { return give(graph); }
TN_NULL cuGraphAddKernelNode_v2(CuGraphNode* node, CuGraph, const CuGraphNode*, size_t, const CuKernelNode*) {
  return give(node);
}
TN_NULL cuGraphAddChildGraphNode(CuGraphNode* node, CuGraph, const CuGraphNode*, size_t, CuGraph) {
  return give(node);
}
TN_NULL cuGraphInstantiateWithFlags(CuGraphExec* exec, CuGraph, unsigned long long) { return give(exec); }

// All other functions return success.
#define TN_YES(name) \
  TN_NULL name() { return 0; }
TN_YES(cuInit)
TN_YES(cuDevicePrimaryCtxRelease_v2)
TN_YES(cuCtxPushCurrent_v2)
TN_YES(cuLibraryUnload)
TN_YES(cuKernelSetAttribute)
TN_YES(cuLaunchKernel)
TN_YES(cuStreamSynchronize)
TN_YES(cuStreamDestroy_v2)
TN_YES(cuStreamBeginCapture_v2)
TN_YES(cuThreadExchangeStreamCaptureMode)
TN_YES(cuMemFree_v2)
TN_YES(cuMemPoolSetAttribute)
TN_YES(cuMemPoolTrimTo)
TN_YES(cuMemPoolDestroy)
TN_YES(cuMemFreeAsync)
TN_YES(cuMemcpyHtoDAsync_v2)
TN_YES(cuMemcpyDtoHAsync_v2)
TN_YES(cuMemsetD8Async)
TN_YES(cuEventCreate)
TN_YES(cuEventRecord)
TN_YES(cuEventElapsedTime)
TN_YES(cuEventDestroy_v2)
TN_YES(cuGraphExecKernelNodeSetParams_v2)
TN_YES(cuGraphExecChildGraphNodeSetParams)
TN_YES(cuGraphLaunch)
TN_YES(cuGraphExecDestroy)
TN_YES(cuGraphDestroy)
