// The context functions of tenon.h: the host's logger, threads and memory. Tested by tests/abi/capi*.c.
#include <algorithm>
#include <mutex>
#include <vector>

#include "src/api/guard.h"
#include "src/base/log.h"
#include "src/base/no_fork.h"

namespace tenon {
namespace {

// The host's parallel_for.
class HostParallel final : public Parallel {
 public:
  HostParallel(tenon_parallel_for_fn fn, void* user, int threads) : fn_(fn), user_(user), threads_(threads) {}
  int threads() const override { return threads_; }
  void run(int64_t n, int most, RangeFn fn, void* arg) override {
    if (n <= 0) return;
    const int parts = static_cast<int>(std::min<int64_t>({n, most, threads_}));
    if (parts <= 1) return fn(arg, 0, 0, n);
    fn_(user_, n, parts, fn, arg);
  }

 private:
  tenon_parallel_for_fn fn_;
  void* user_;
  int threads_;
};

// The host's memory of one device.
class HostDeviceMemory final : public DeviceMemory {
 public:
  HostDeviceMemory(const tenon_context& context, DeviceId device)
      : context_(context), device_{device.type, device.index} {}
  Result<Block> take(int64_t bytes, void* stream) override {
    Block block;
    block.data = context_.device_alloc(context_.device_allocator_user, device_, static_cast<size_t>(bytes),
                                       stream, &block.token);
    if (!block.data)
      return environment("the host has no " + std::to_string(bytes) + " bytes on device " +
                         std::to_string(device_.id));
    return block;
  }
  void give(const Block& block, int64_t bytes, void* stream) override {
    context_.device_free(context_.device_allocator_user, device_, block.data, static_cast<size_t>(bytes),
                         stream, block.token);
  }

 private:
  const tenon_context& context_;
  const tenon_device device_;
};

// The living contexts that brought a logger. The newest one is in use.
struct Loggers {
  struct Entry {
    tenon_context* context;
    tenon_log_fn log;
    void* user;
  };
  std::mutex mutex;
  std::vector<Entry> entries;
  void settle() {
    if (entries.empty())
      set_logger(nullptr, nullptr);
    else
      set_logger(entries.back().log, entries.back().user);
  }
};
Loggers& loggers() {
  static Loggers& all = *new Loggers;  // never destroyed: a context may be released late
  return all;
}

}  // namespace
}  // namespace tenon

tenon_context::~tenon_context() {
  if (!logs) return;
  tenon::Loggers& all = tenon::loggers();
  const tenon::NoFork no_fork;
  std::lock_guard lock(all.mutex);
  std::erase_if(all.entries, [&](const auto& e) { return e.context == this; });
  all.settle();
}

tenon::DeviceMemory* tenon_context::device_memory(tenon::DeviceId device) {
  if (!device_alloc || device.is_cpu()) return nullptr;
  const tenon::NoFork no_fork;
  std::lock_guard lock(mutex_);
  for (auto& [id, memory] : device_memories_)
    if (id == device) return memory.get();
  return device_memories_.emplace_back(device, std::make_unique<tenon::HostDeviceMemory>(*this, device))
      .second.get();
}

extern "C" {

tenon_status tenon_context_create(const tenon_context_options* options, tenon_context** out) {
  return tenon::api::guarded([&]() -> tenon::Status {
    if (!out) return tenon::invalid("tenon_context_create: out is NULL");
    *out = nullptr;
    tenon_context_options given;
    TENON_TRY(tenon::api::read_struct(options, "tenon_context_options", &given));
    if (given.num_threads < 0) return tenon::invalid("num_threads is negative");
    if (given.parallel_for && given.num_threads == 0)
      return tenon::invalid("parallel_for needs num_threads: how many it has");
    if (!given.alloc != !given.free) return tenon::invalid("alloc and free go together");
    if (!given.device_alloc != !given.device_free)
      return tenon::invalid("device_alloc and device_free go together");
    auto handle = std::make_unique<tenon_context>();
    handle->allocator = {given.alloc, given.free, given.allocator_user};
    handle->num_threads = given.num_threads;
    handle->device_alloc = given.device_alloc;
    handle->device_free = given.device_free;
    handle->device_allocator_user = given.device_allocator_user;
    if (given.parallel_for)
      handle->parallel =
          std::make_unique<tenon::HostParallel>(given.parallel_for, given.parallel_user, given.num_threads);
    if (given.log) {
      tenon::Loggers& all = tenon::loggers();
      const tenon::NoFork no_fork;
      std::lock_guard lock(all.mutex);
      all.entries.push_back({handle.get(), given.log, given.log_user});
      handle->logs = true;
      all.settle();
    }
    *out = handle.release();
    return {};
  });
}

void tenon_context_retain(tenon_context* context) { tenon::api::retain(context); }
void tenon_context_release(tenon_context* context) { tenon::api::release(context); }
}
