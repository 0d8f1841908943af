#include "tests/support/paths.h"

const char kSourceDirectory[] = TENON_SOURCE_DIR;
const char kHostObjects[] = TENON_HOST_OBJECTS;
const char kInternalLibrary[] = TENON_INTERNAL_LIBRARY;
const char kCompiler[] = TENON_CXX;
const char kCcache[] = TENON_CCACHE;
const char kCudaMock[] = TENON_CUDA_MOCK, kNvrtcMock[] = TENON_NVRTC_MOCK,
           kCublasltMock[] = TENON_CUBLASLT_MOCK, kCudnnMock[] = TENON_CUDNN_MOCK,
           kCudaStub[] = TENON_CUDA_STUB, kMxnetPlugin[] = TENON_MXNET_PLUGIN;
