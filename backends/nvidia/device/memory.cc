// See memory.h.
#include "backends/nvidia/device/memory.h"

#include <atomic>
#include <map>
#include <mutex>

#include "backends/nvidia/device/device.h"
#include "backends/nvidia/device/recording.h"

namespace tenon::cuda {
namespace {

CuAddress address(void* block) { return reinterpret_cast<CuAddress>(block); }

// A stream-ordered pool of the driver that only Tenon uses. The pool keeps unused memory: otherwise it would return memory to the
// driver whenever a thread synchronizes with the device, and allocate it again with the next run. If an allocation fails, the pool
// returns its unused memory, and the allocation is tried once more.
class Pool final : public DeviceMemory {
 public:
  explicit Pool(const Device& device) : device_(device) {}

  Result<Block> take(int64_t bytes, void* stream) override {
    const Current current(device_);
    TENON_TRY(current.status());
    TENON_ASSIGN(const CuPool pool, opened());
    CuAddress block = 0;
    auto ask = [&] {
      return driver().cuMemAllocFromPoolAsync.status_of(&block, static_cast<size_t>(bytes), pool,
                                                        static_cast<CuStream>(stream));
    };
    int error = ask();
    if (error == kCuOutOfMemory) {
      const Relaxed relaxed(driver());
      if (driver().cuMemPoolTrimTo.status_of(pool, 0) == 0) error = ask();
    }
    if (error != 0)
      return driver()
          .failure("cuMemAllocFromPoolAsync", error)
          .at(std::to_string(bytes) + " bytes of " + device_.description().name);
    return Block{reinterpret_cast<void*>(block), nullptr};
  }
  void give(const Block& block, int64_t, void* stream) override {
    const Current current(device_);
    driver().cuMemFreeAsync.status_of(address(block.data), static_cast<CuStream>(stream));
  }

 private:
  // The pool; the first call makes it, and nothing destroys it.
  Result<CuPool> opened() {
    if (CuPool ready = pool_.load(std::memory_order_acquire)) return ready;
    std::lock_guard lock(mutex_);
    if (CuPool ready = pool_.load(std::memory_order_relaxed)) return ready;
    const Relaxed relaxed(driver());
    CuPoolProperties properties{};
    properties.allocation_type = kCuPinned;
    properties.location_type = kCuDeviceLocation;
    properties.location = device_.handle();
    CuPool pool = nullptr;
    TENON_TRY(driver().cuMemPoolCreate(&pool, &properties));
    uint64_t everything = UINT64_MAX;
    Status set = driver().cuMemPoolSetAttribute(pool, kCuReleaseThreshold, &everything);
    if (!set.ok()) {
      driver().cuMemPoolDestroy.status_of(pool);
      return set;
    }
    pool_.store(pool, std::memory_order_release);
    return pool;
  }
  const Driver& driver() const { return device_.driver(); }

  const Device& device_;
  std::mutex mutex_;
  std::atomic<CuPool> pool_{nullptr};
};

class Runtime final : public DeviceRuntime {
 public:
  explicit Runtime(const Device& device) : device_(device), pool_(device) {}

  DeviceMemory& pool() override { return pool_; }

  // The deleter may free the block at any time: cuMemFree waits until the device has finished with it.
  Result<std::shared_ptr<void>> keep(const void* bytes, int64_t size) override {
    const Current current(device_);
    TENON_TRY(current.status());
    const Relaxed relaxed(driver());
    CuAddress block = 0;
    Status taken = driver().cuMemAlloc_v2(&block, static_cast<size_t>(size));
    if (!taken.ok()) return taken.at(std::to_string(size) + " bytes of " + device_.description().name);
    std::shared_ptr<void> kept(reinterpret_cast<void*>(block), [this](void* b) {
      const Current again(device_);
      const Relaxed again_relaxed(driver());
      driver().cuMemFree_v2.status_of(address(b));
    });
    TENON_TRY(copy(block, bytes, static_cast<size_t>(size)));
    return kept;
  }

  // Does not query the context of a stream that captures, since the query would invalidate the capture. The driver still refuses
  // launches on a stream of another device.
  Status check_stream(void* stream, bool prepare) override {
    const Current current(device_);
    TENON_TRY(current.status());
    const auto s = static_cast<CuStream>(stream);
    int capturing = kCuNotCapturing;
    TENON_TRY(driver().cuStreamIsCapturing(s, &capturing));
    if (capturing != kCuNotCapturing)
      return prepare
                 ? environment(
                       "the stream captures, and there is no plan for these sizes yet: run once with them "
                       "before the capture")
                 : Status();
    if (prepare) return {};
    CuContext context = nullptr;
    TENON_TRY(driver().cuStreamGetCtx(s, &context));
    if (context != device_.context())
      return invalid("the stream belongs to another device or context than the program's " +
                     device_.description().name);
    return {};
  }

  bool captures(void* stream) override {
    const Current current(device_);
    int capturing = kCuNotCapturing;
    return !current.status().ok() ||
           driver().cuStreamIsCapturing.status_of(static_cast<CuStream>(stream), &capturing) != 0 ||
           capturing != kCuNotCapturing;
  }

  std::unique_ptr<Recording> recording() override { return record_graph(device_); }

 private:
  // Copies on a new stream: the default stream waits for other streams, and a copy on it may still be under way when the call
  // returns.
  Status copy(CuAddress to, const void* bytes, size_t size) {
    CuStream stream = nullptr;
    TENON_TRY(driver().cuStreamCreate(&stream, kCuNonBlocking));
    Status done = driver().cuMemcpyHtoDAsync_v2(to, bytes, size, stream);
    if (done.ok()) done = driver().cuStreamSynchronize(stream);
    driver().cuStreamDestroy_v2.status_of(stream);
    return done;
  }
  const Driver& driver() const { return device_.driver(); }
  const Device& device_;
  Pool pool_;
};

}  // namespace

Result<DeviceRuntime*> runtime_of(int ordinal) {
  TENON_ASSIGN(const Device* opened, device(ordinal));
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::map<const Device*, std::unique_ptr<Runtime>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<Runtime>& runtime = all[opened];
  if (!runtime) runtime = std::make_unique<Runtime>(*opened);
  return runtime.get();
}

}  // namespace tenon::cuda
