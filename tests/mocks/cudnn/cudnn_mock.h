// The controls of the mock of cuDNN (cudnn_mock.cc), for tests. The log has every cudnnBackendExecute, "forward 1x2x4x4 by 3x2x3x3
// f32 nhwc pad 1x1, engine A0 aligned 16 stream 7".
#pragma once

#include "tests/mocks/mock_controls.h"
#include "tests/support/paths.h"

class CudnnMock : public MockControls {
 public:
  // version=N. memory=0: tensors may be anywhere. The variable CUDNN_MOCK may hold memory=0, too.
  void (*set)(const char* name, int value) = nullptr;
  // The engines that the heuristics name: those of mode A, a bar, those of the fallback mode, separated by semicolons. An engine is a
  // list of words: workspace=BYTES fail=STATUS aligned=BYTES (the least alignment) tensorcore down reduced random compiles.
  void (*engines)(const char* text) = nullptr;

  static const CudnnMock& get() {
    static const CudnnMock mock;
    return mock;
  }

 private:
  CudnnMock() : MockControls(kCudnnMock, "tn_dnn_") {
    resolve("set", set);
    resolve("engines", engines);
  }
};
