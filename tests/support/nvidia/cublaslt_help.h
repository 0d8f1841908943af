// A fixture for programs with products of matrices, for tests/unit/backends/cublaslt*_test.cc.
#pragma once

#include "backends/library/kept_algorithms.h"
#include "backends/nvidia/cublaslt/algorithm.h"
#include "tests/mocks/cublaslt/cublaslt_mock.h"
#include "tests/support/nvidia/cuda_library_help.h"
#include "tests/support/paths.h"

namespace tenon {

inline const CublasLtMock& lt() { return CublasLtMock::get(); }

class CublasLt : public CudaLibraryTest {
 protected:
  static void SetUpTestSuite() {
    CudaLibraryTest::SetUpTestSuite();
    setenv("TENON_CUBLASLT", kCublasltMock, 1);
  }
  const MockControls& library() const override { return lt(); }
  void forget_algorithms() const override { library::kept_algorithms<cublaslt::Algorithm>().clear(); }
  void forget_library() const override { cublaslt::forget_library(); }

  std::vector<std::string> products() const {
    std::vector<std::string> found;
    for (const std::string& line : lines())
      if (line.starts_with("cublasLtMatmul ")) found.push_back(line.substr(15));
    return found;
  }
};

inline const std::string kMlp = R"(graph @f(%x: T[N,K], %w: T[K,M], %b: T[M]) {
  %h = matmul(%x, %w)
  %s = add(%h, %b)
  %g = gelu(%s){approximate="tanh"}
  %n = softmax(%g){axis=-1}
  return %n
})";

}  // namespace tenon
