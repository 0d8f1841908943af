// See libraries.h.
#include "backends/nvidia/device/libraries.h"

namespace tenon::cuda {

LibrarySearch cublaslt_search() {
  return {"cuBLASLt",
          {"libcublasLt.so.13", "libcublasLt.so.12"},
          "TENON_CUBLASLT",
          {"nvidia/cu13/lib", "nvidia/cublas/lib"},
          ""};
}

LibrarySearch cudnn_search() { return {"cuDNN", {"libcudnn.so.9"}, "TENON_CUDNN", {"nvidia/cudnn/lib"}, ""}; }

std::string release_text(size_t version) {
  const size_t major = version < 10000 ? 1000 : 10000;
  return std::to_string(version / major) + "." + std::to_string(version % major / 100) + "." +
         std::to_string(version % 100);
}

Result<size_t> version_of(const SharedLibrary& library, const std::string& what, const char* symbol,
                          size_t oldest) {
  size_t (*version)() = nullptr;
  TENON_TRY(library.resolve(symbol, version));
  const size_t v = version();
  if (v < oldest)
    return environment(what + " " + library.path() + " is of version " + release_text(v) + "; " +
                       release_text(oldest) + " or newer is needed");
  return v;
}

}  // namespace tenon::cuda
