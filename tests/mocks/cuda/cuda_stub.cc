// A libcuda.so.1 without a GPU, since NVIDIA's libraries need one before they plan anything. Every function that they look up exists
// and reports that there is no device, except that loading a kernel that cuDNN has compiled succeeds.
#define TN_STUB extern "C" __attribute__((visibility("default")))

// CUDA_ERROR_NO_DEVICE
#define NO_DEVICE(name) \
  TN_STUB int name() { return 100; }
NO_DEVICE(cuInit)
NO_DEVICE(cuGetErrorName)
NO_DEVICE(cuGetErrorString)
NO_DEVICE(cuGetProcAddress)
NO_DEVICE(cuGetProcAddress_v2)
NO_DEVICE(cuCtxGetCurrent)
NO_DEVICE(cuCtxGetLimit)
NO_DEVICE(cuCtxPopCurrent)
NO_DEVICE(cuCtxPushCurrent)
NO_DEVICE(cuStreamGetCtx)
NO_DEVICE(cuDeviceGet)
NO_DEVICE(cuDeviceGetCount)
NO_DEVICE(cuLaunchCooperativeKernel)
NO_DEVICE(cuLaunchKernel)
NO_DEVICE(cuLaunchKernelEx)
NO_DEVICE(cuLibraryLoadFromFile)
NO_DEVICE(cuLinkAddData)
NO_DEVICE(cuLinkComplete)
NO_DEVICE(cuLinkCreate)
NO_DEVICE(cuLinkDestroy)
NO_DEVICE(cuModuleGetFunction)
NO_DEVICE(cuModuleLoadData)
NO_DEVICE(cuModuleUnload)
NO_DEVICE(cuOccupancyMaxPotentialClusterSize)
NO_DEVICE(cuTensorMapEncodeIm2col)
NO_DEVICE(cuTensorMapEncodeTiled)

TN_STUB int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
// Hand out handles that nothing dereferences.
TN_STUB int cuLibraryLoadData(void** library) { return *library = library, 0; }
TN_STUB int cuLibraryGetKernel(void** kernel) { return *kernel = kernel, 0; }
TN_STUB int cuKernelGetFunction(void** function) { return *function = function, 0; }
TN_STUB int cuKernelGetAttribute(int* value) { return *value = 0, 0; }
TN_STUB int cuKernelSetAttribute() { return 0; }
TN_STUB int cuLibraryUnload() { return 0; }
