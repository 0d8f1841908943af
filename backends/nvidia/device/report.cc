// See report.h.
#include "backends/nvidia/device/report.h"

#include "backends/nvidia/device/device.h"
#include "backends/nvidia/device/libraries.h"
#include "jit/cuda/nvrtc.h"

namespace tenon::cuda {
namespace {

std::string sentence(const jit::CudaDevice& d) {
  return d.name + ": sm_" + std::to_string(d.architecture) + ", " + std::to_string(d.multiprocessors) +
         " multiprocessors, " + std::to_string(d.shared_bytes >> 10) + " KiB of shared memory a block, " +
         std::to_string(d.bytes_in_flight >> 10) + " KiB in flight";
}

// "PATH, version 9.19.1", or the error.
std::string described(const LibrarySearch& search, const char* symbol) {
  const Result<SharedLibrary> library = SharedLibrary::open(search);
  if (!library.ok()) return library.status().message();
  const Result<size_t> version = version_of(*library, search.what, symbol);
  return version.ok() ? library->path() + ", version " + release_text(*version) : version.status().message();
}

std::string describe(const jit::Nvrtc& nvrtc) {
  std::string text = nvrtc.path() + ", version " + std::to_string(nvrtc.version() / 100) + "." +
                     std::to_string(nvrtc.version() % 100) + ", for";
  for (int architecture : nvrtc.architectures()) text += " sm_" + std::to_string(architecture);
  return text;
}

}  // namespace

std::vector<ReportLine> report() {
  std::vector<ReportLine> lines;
  const auto driver = Driver::get();
  const auto nvrtc = jit::Nvrtc::get();
  lines.push_back({"CUDA driver", driver.ok()
                                      ? (*driver)->path() + ", CUDA " + version_text((*driver)->version())
                                      : driver.status().message()});
  int usable = 0;
  for (int i = 0; driver.ok() && i < (*driver)->devices(); ++i) {
    const auto device = describe(**driver, i);
    Status status = device.status();
    if (status.ok() && nvrtc.ok()) status = check_compiler(**driver, **nvrtc, device->architecture);
    usable += status.ok();
    lines.push_back({"GPU " + std::to_string(i), status.ok() ? sentence(*device) : status.message()});
  }
  lines.push_back({"NVRTC", nvrtc.ok() ? describe(**nvrtc) : nvrtc.status().message()});
  lines.push_back({"cuBLASLt", described(cublaslt_search(), "cublasLtGetVersion")});
  lines.push_back({"cuDNN", described(cudnn_search(), "cudnnGetVersion")});
  std::string state = std::to_string(usable) + " usable";
  if (!driver.ok())
    state = "off: no CUDA driver";
  else if (usable == 0)
    state = "off: no GPU that can be used";
  else if (!nvrtc.ok())
    state = "off: no NVRTC";
  lines.insert(lines.begin(), {"GPU", state});
  return lines;
}

}  // namespace tenon::cuda
