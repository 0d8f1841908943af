// See device.h.
#include "backends/nvidia/device/device.h"

#include "src/base/threads/immortal.h"

#include <map>
#include <mutex>

namespace tenon::cuda {
namespace {

constexpr int kOldestArchitecture = 80;  // the first with conversions to bf16

// Seconds. Latency times bandwidth is the number of bytes in flight that keeps a device's memory busy. This latency gives the 32 KB
// per multiprocessor that NVIDIA measured on an H100 (github.com/NVIDIA/cccl, issue 4790).
constexpr double kMemoryLatency = 1.25e-6;

int64_t bytes_in_flight(const Driver& driver, CuDevice device, const jit::CudaDevice& described) {
  int kilohertz = 0, bits = 0;
  if (driver.cuDeviceGetAttribute.status_of(&kilohertz, kCuMemoryClock, device) != 0 ||
      driver.cuDeviceGetAttribute.status_of(&bits, kCuMemoryBusWidth, device) != 0 || kilohertz <= 0 ||
      bits <= 0)
    return described.bytes_in_flight;
  const double bandwidth = 2.0 * kilohertz * 1e3 * bits / 8;  // bytes per second, at two transfers per clock
  return static_cast<int64_t>(bandwidth * kMemoryLatency / described.multiprocessors);
}

}  // namespace

Result<jit::CudaDevice> describe(const Driver& driver, int ordinal) {
  if (ordinal < 0 || ordinal >= driver.devices())
    return invalid("there is no GPU " + std::to_string(ordinal) + ": the driver has " +
                   std::to_string(driver.devices()));
  CuDevice device = 0;
  TENON_TRY(driver.cuDeviceGet(&device, ordinal));
  jit::CudaDevice d;
  char name[256] = {};
  TENON_TRY(driver.cuDeviceGetName(name, sizeof name, device));
  d.name = name;
  int major = 0, minor = 0, registers = 0, shared_bytes = 0;
  TENON_TRY(driver.cuDeviceGetAttribute(&major, kCuCapabilityMajor, device));
  TENON_TRY(driver.cuDeviceGetAttribute(&minor, kCuCapabilityMinor, device));
  d.architecture = 10 * major + minor;
  if (d.architecture < kOldestArchitecture)
    return unsupported(d.name + " is an sm_" + std::to_string(d.architecture) + "; sm_" +
                       std::to_string(kOldestArchitecture) + " or newer is needed");
  TENON_TRY(driver.cuDeviceGetAttribute(&d.multiprocessors, kCuMultiprocessors, device));
  TENON_TRY(driver.cuDeviceGetAttribute(&d.threads_per_multiprocessor, kCuThreadsPerMultiprocessor, device));
  TENON_TRY(driver.cuDeviceGetAttribute(&registers, kCuRegistersPerMultiprocessor, device));
  TENON_TRY(driver.cuDeviceGetAttribute(&shared_bytes, kCuSharedBytesOptin, device));
  if (d.multiprocessors <= 0) return environment(d.name + " has no multiprocessors, says the driver");
  d.registers = registers;
  d.shared_bytes = shared_bytes;
  d.bytes_in_flight = bytes_in_flight(driver, device, d);
  return d;
}

Status check_compiler(const Driver& driver, const jit::Nvrtc& nvrtc, int architecture) {
  const int major = nvrtc.version() / 100;
  if (major > driver.version() / 1000)
    return environment("NVRTC is of CUDA " + std::to_string(major) + ", whose code the driver of CUDA " +
                       version_text(driver.version()) + " does not load");
  return nvrtc.architecture_for(architecture).status();
}

Result<std::unique_ptr<Device>> Device::open(const Driver& driver, int ordinal) {
  std::unique_ptr<Device> d(new Device(driver, ordinal));
  TENON_ASSIGN(d->description_, describe(driver, ordinal));
  TENON_TRY(driver.cuDeviceGet(&d->handle_, ordinal));
  TENON_TRY(driver.cuDevicePrimaryCtxRetain(&d->context_, d->handle_));
  return d;
}

Device::~Device() {
  if (context_) driver_.cuDevicePrimaryCtxRelease_v2.status_of(handle_);
}

namespace {

struct Devices {
  std::mutex mutex;
  std::map<int, std::unique_ptr<Device>> by_ordinal;
};
Devices& devices() { return immortal<Devices>(); }

}  // namespace

Result<const Device*> device(int ordinal) {
  TENON_ASSIGN(const Driver* driver, Driver::get());
  Devices& all = devices();
  std::lock_guard lock(all.mutex);
  std::unique_ptr<Device>& place = all.by_ordinal[ordinal];
  if (!place) {
    TENON_ASSIGN(place, Device::open(*driver, ordinal));
  }
  return place.get();
}

void forget_devices() {
  Devices& all = devices();
  std::lock_guard lock(all.mutex);
  all.by_ordinal.clear();
}

Current::Current(const Device& device) : driver_(device.driver()) {
  CuContext now = nullptr;
  status_ = driver_.cuCtxGetCurrent(&now);
  if (!status_.ok() || now == device.context()) return;
  status_ = driver_.cuCtxPushCurrent_v2(device.context());
  pushed_ = status_.ok();
}

Current::~Current() {
  CuContext popped = nullptr;
  if (pushed_) driver_.cuCtxPopCurrent_v2.status_of(&popped);
}

Relaxed::Relaxed(const Driver& driver) : driver_(driver) {
  if (driver_.cuThreadExchangeStreamCaptureMode.status_of(&former_) != 0) former_ = kCuRelaxedCapture;
}

Relaxed::~Relaxed() {
  if (former_ != kCuRelaxedCapture) driver_.cuThreadExchangeStreamCaptureMode.status_of(&former_);
}

Status may_make(const Device& device, CuStream stream, const std::string& what) {
  int capturing = kCuNotCapturing;
  TENON_TRY(device.driver().cuStreamIsCapturing(stream, &capturing));
  if (capturing == kCuNotCapturing) return {};
  return environment("the stream captures, and " + what + ": run once with them before the capture");
}

Result<std::unique_ptr<Library>> Library::load(const Device& device, const std::string& code) {
  std::unique_ptr<Library> l(new Library(device));
  const Relaxed relaxed(device.driver());
  TENON_TRY(
      device.driver().cuLibraryLoadData(&l->handle_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  return l;
}

Library::~Library() {
  if (!handle_) return;
  const Relaxed relaxed(device_.driver());
  device_.driver().cuLibraryUnload.status_of(handle_);
}

Result<CuFunction> Library::function(const std::string& name, int64_t dynamic_shared_bytes) const {
  const Driver& driver = device_.driver();
  const Relaxed relaxed(driver);
  CuKernel kernel = nullptr;
  Status found = driver.cuLibraryGetKernel(&kernel, handle_, name.c_str());
  if (!found.ok()) return found.at("kernel " + name);
  // Without this attribute a launch may use kCuDefaultSharedBytes minus the kernel's static shared memory.
  if (dynamic_shared_bytes > 0) {
    Status set = driver.cuKernelSetAttribute(kCuMaxDynamicSharedBytes, static_cast<int>(dynamic_shared_bytes),
                                             kernel, device_.handle());
    if (!set.ok())
      return set.at("kernel " + name + " with " + std::to_string(dynamic_shared_bytes) + " shared bytes");
  }
  Current current(device_);
  TENON_TRY(current.status());
  CuFunction function = nullptr;
  Status loaded = driver.cuKernelGetFunction(&function, kernel);
  if (!loaded.ok()) return loaded.at("kernel " + name);
  return function;
}

}  // namespace tenon::cuda
