// The controls of the mock driver (cuda_mock.cc), for tests. Its log: every call that changes something or asks the device,
// "cuLaunchKernel fill grid 4 1 1 block 128 1 1 shared 0 (M1+16, 48) stream 0", with " -> 1" behind where it failed. Memory is M1, M2
// … in order of allocation, and so are contexts (C0 of device 0), libraries (L), graphs (G), their nodes (N) and executables
// (X), events (E). What is retained or pushed on this thread counts as alive.
#pragma once

#include "tests/mocks/mock_controls.h"

class CudaMock : public MockControls {
 public:
  // "devices=2 architecture=75 version=11080 …": see Settings in cuda_mock_state.h. The first ones are those of CUDA_MOCK.
  void (*set)(const char* settings) = nullptr;
  // The order of threads that kernels are run in.
  void (*order)(int order) = nullptr;
  // 0: the stream does not capture; 1: it does, in the mode that looks at everybody, cuStreamIsCapturing says so, and what must not be
  // done meanwhile fails and makes it 2, as the driver does: the capture is lost.
  void (*capture)(void* stream, int status) = nullptr;
  void (*stream_device)(void* stream, int device) = nullptr;
  // Memory of the host counts as a device's, H1, H2 … in the log, until it is adopted with 0 bytes.
  void (*adopt)(void* memory, size_t bytes, int device) = nullptr;

  static const CudaMock& get() {
    static const CudaMock mock;
    return mock;
  }

 private:
  CudaMock() : MockControls(TENON_CUDA_MOCK, "tn_mock_") {
    resolve("set", set);
    resolve("order", order);
    resolve("capture", capture);
    resolve("stream_device", stream_device);
    resolve("adopt", adopt);
  }
};
