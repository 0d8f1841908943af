// The controls of the mock of cuBLASLt (cublaslt_mock.cc), for tests. The log has every call of cublasLtMatmul and of the heuristic,
// in the library's column-major terms.
#pragma once

#include "tests/mocks/mock_controls.h"
#include "tests/support/paths.h"

class CublasLtMock : public MockControls {
 public:
  // workspace=N: bytes that algorithms need, if so much is offered. version=N. batched=0: no epilogue for batches. aligned=N: no
  // algorithm for less aligned pointers. memory=0: matrices may be anywhere. The variable CUBLASLT_MOCK may hold memory=0, too.
  void (*set)(const char* name, int value) = nullptr;

  static const CublasLtMock& get() {
    static const CublasLtMock mock;
    return mock;
  }

 private:
  CublasLtMock() : MockControls(kCublasltMock, "tn_lt_") { resolve("set", set); }
};
