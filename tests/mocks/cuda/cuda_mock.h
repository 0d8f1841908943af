// The controls of the mock driver (cuda_mock.cc), for tests. The log has every call that changes something or asks the device,
// "cuLaunchKernel fill grid 4 1 1 block 128 1 1 shared 0 (M1+16, 48) stream 0", with " -> 1" behind it if it failed. Memory is named
// M1, M2 … in order of allocation, and likewise contexts (C0 of device 0), libraries (L), graphs (G), their nodes (N) and
// executables (X), events (E). Contexts that are retained, or pushed on this thread, count as alive.
#pragma once

#include "tests/mocks/mock_controls.h"
#include "tests/support/paths.h"

class CudaMock : public MockControls {
 public:
  // "devices=2 architecture=75 version=11080 …": see Settings in cuda_mock_state.h. The initial settings are those of the variable
  // CUDA_MOCK.
  void (*set)(const char* settings) = nullptr;
  // Sets the order of threads for the kernels that run from now on.
  void (*order)(int order) = nullptr;
  // Sets the status of a stream. 0: it does not capture. 1: it captures in the global mode, cuStreamIsCapturing reports it, and a
  // forbidden call fails and sets the status to 2, as in the driver. 2: the capture is invalidated.
  void (*capture)(void* stream, int status) = nullptr;
  void (*stream_device)(void* stream, int device) = nullptr;
  // Lets host memory count as device memory, named H1, H2 … in the log, until it is adopted with 0 bytes.
  void (*adopt)(void* memory, size_t bytes, int device) = nullptr;

  static const CudaMock& get() {
    static const CudaMock mock;
    return mock;
  }

 private:
  CudaMock() : MockControls(kCudaMock, "tn_mock_") {
    resolve("set", set);
    resolve("order", order);
    resolve("capture", capture);
    resolve("stream_device", stream_device);
    resolve("adopt", adopt);
  }
};
