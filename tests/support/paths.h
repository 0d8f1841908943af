// Absolute paths of this checkout and of its build. Only paths.cc is compiled with them, so all other objects of tests are the same in
// every checkout, and ccache finds them.
#pragma once

extern const char kSourceDirectory[];  // the root of the sources
extern const char kHostObjects[];      // the directory of CUDA text that tests have compiled for the host
extern const char kInternalLibrary[];  // the library under test
extern const char kCompiler[];         // the C++ compiler
extern const char kCcache[];           // ccache, "" without it
// Shared libraries that stand in for the CUDA driver, NVRTC, cuBLASLt and cuDNN; the stub of the driver; the plugin for MXNet.
extern const char kCudaMock[], kNvrtcMock[], kCublasltMock[], kCudnnMock[], kCudaStub[], kMxnetPlugin[];
