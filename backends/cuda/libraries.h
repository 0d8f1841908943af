// Where NVIDIA's libraries for heavy operations are looked for: by those who call them, and by the report that says whether
// they are there. Tested by tests/cuda_driver_test.cc and tests/cublaslt_library_test.cc.
#pragma once

#include "src/base/shared_library.h"

namespace tenon::cuda {

inline LibrarySearch cublaslt_search() {
  return {"cuBLASLt",
          {"libcublasLt.so.13", "libcublasLt.so.12"},
          "TENON_CUBLASLT",
          {"nvidia/cu13/lib", "nvidia/cublas/lib"},
          ""};
}

inline LibrarySearch cudnn_search() {
  return {"cuDNN", {"libcudnn.so.9"}, "TENON_CUDNN", {"nvidia/cudnn/lib"}, ""};
}

}  // namespace tenon::cuda
