// See driver.h.
#include "backends/nvidia/device/driver.h"

namespace tenon::cuda {

constexpr int kOldestDriver = 12000;  // the first with cuLibraryLoadData and cuGraphAddKernelNode_v2

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

LibrarySearch Driver::search() { return {"the CUDA driver", {"libcuda.so.1"}, "TENON_CUDA_DRIVER", {}, ""}; }

Result<const Driver*> Driver::get() {
  static const auto& opened = *new Result<std::unique_ptr<Driver>>(open(search()));  // used at exit, too
  if (!opened.ok()) return opened.status();
  return opened->get();
}

Result<std::unique_ptr<Driver>> Driver::open(const LibrarySearch& search) {
  std::unique_ptr<Driver> d(new Driver);
  TENON_ASSIGN(d->library_, SharedLibrary::open(search));
  // Checks the version first: for an old driver it makes a better message than a missing function.
  TENON_TRY(d->cuDriverGetVersion.resolve(d->library_, "cuDriverGetVersion", d.get()));
  TENON_TRY(d->cuGetErrorName.resolve(d->library_, "cuGetErrorName", d.get()));
  TENON_TRY(d->cuGetErrorString.resolve(d->library_, "cuGetErrorString", d.get()));
  TENON_TRY(d->cuDriverGetVersion(&d->version_));
  if (d->version_ < kOldestDriver)
    return environment("the CUDA driver " + d->path() + " is of CUDA " + version_text(d->version_) + "; " +
                       version_text(kOldestDriver) + " or newer is needed");
#define X(name, ...) TENON_TRY(d->name.resolve(d->library_, #name, d.get()));
  TENON_CUDA_DRIVER(X)
#undef X
  TENON_TRY(d->cuInit(0));
  TENON_TRY(d->cuDeviceGetCount(&d->devices_));
  return d;
}

Status Driver::failure(const char* call, int error) const {
  const char *name = nullptr, *text = nullptr;
  std::string message = call + std::string(": ");
  if (cuGetErrorName.status_of(error, &name) == 0 && name)
    message += name + (" (" + std::to_string(error) + ")");
  else
    message += "error " + std::to_string(error);
  if (cuGetErrorString.status_of(error, &text) == 0 && text) message += std::string(": ") + text;
  return environment(std::move(message));
}

}  // namespace tenon::cuda
