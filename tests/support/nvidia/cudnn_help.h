// A fixture for programs with convolutions, for tests/unit/backends/cudnn*_test.cc.
#pragma once

#include "backends/library/kept_algorithms.h"
#include "backends/nvidia/cudnn/algorithm.h"
#include "tests/mocks/cudnn/cudnn_mock.h"
#include "tests/support/nvidia/cuda_library_help.h"
#include "tests/support/paths.h"

namespace tenon {

inline const CudnnMock& dnn() { return CudnnMock::get(); }

class Cudnn : public CudaLibraryTest {
 protected:
  static void SetUpTestSuite() {
    CudaLibraryTest::SetUpTestSuite();
    setenv("TENON_CUDNN", kCudnnMock, 1);
    setenv("TENON_CUBLASLT", "off", 1);
  }
  const MockControls& library() const override { return dnn(); }
  void forget_algorithms() const override { library::kept_algorithms<cudnn::Algorithm>().clear(); }
  void forget_library() const override { cudnn::forget_library(); }

  // The word behind `word` in every line of the log that has it.
  std::vector<std::string> words_behind(const std::string& word) const {
    std::vector<std::string> found;
    for (const std::string& line : lines()) {
      const size_t at = line.find(word + " ") + word.size() + 1;
      found.push_back(line.substr(at, line.find(' ', at) - at));
    }
    return found;
  }
};

}  // namespace tenon
