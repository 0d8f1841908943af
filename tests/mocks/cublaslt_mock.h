// The controls of the mock of cuBLASLt (cublaslt_mock.cc), for tests. Its log: every call of cublasLtMatmul and of the heuristic, in
// the library's words: columns first.
#pragma once

#include "tests/mocks/mock_controls.h"

class CublasLtMock : public MockControls {
 public:
  // workspace=N: what algorithms ask for, where so much is offered. version=N. batched=0: no epilogue for batches.
  // aligned=N: no algorithm for pointers that are less aligned. memory=0: matrices may be anywhere, also as CUBLASLT_MOCK.
  void (*set)(const char* name, int value) = nullptr;

  static const CublasLtMock& get() {
    static const CublasLtMock mock;
    return mock;
  }

 private:
  CublasLtMock() : MockControls(TENON_CUBLASLT_MOCK, "tn_lt_") { resolve("set", set); }
};
