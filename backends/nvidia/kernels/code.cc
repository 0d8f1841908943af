// See code.h.
#include "backends/nvidia/kernels/code.h"

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "jit/cuda/cuda_code.h"
#include "jit/cuda/emit_cuda.h"
#include "src/base/no_fork.h"
#include "src/base/threads/immortal.h"
#include "src/base/threads/parallel_invoke.h"

namespace tenon::cuda {
namespace {

constexpr size_t kThreads = 8;  // most threads of one load()

// One kernel variant on one device. The first thread that asks compiles and loads it.
struct Entry {
  std::mutex mutex;
  std::unique_ptr<Library> library;
  CuFunction function = nullptr;
  int64_t shared_bytes = 0;  // dynamic shared memory that `function` may use
  int64_t spill_bytes = 0;
};

struct Known {
  std::mutex mutex;  // guards the map, not its entries
  std::map<std::pair<int, std::string>, std::shared_ptr<Entry>> code;
};

std::shared_ptr<Entry> entry_of(const Device& device, const Wanted& w) {
  const std::pair key(device.ordinal(), jit::cuda_settings(w.variant.schedule) +
                                            jit::cuda_text(*w.variant.kernel, w.variant.schedule));
  Known& k = immortal<Known>();
  std::lock_guard lock(k.mutex);
  std::shared_ptr<Entry>& place = k.code[key];
  if (!place) place = std::make_shared<Entry>();
  return place;
}

Status load_one(const Device& device, Entry& entry, Wanted& w, std::atomic<int>& compiled) {
  std::lock_guard lock(entry.mutex);
  if (!entry.library) {
    TENON_ASSIGN(const jit::CudaCode code, jit::cuda_code(w.variant, device.description().architecture));
    compiled += code.compiled;
    TENON_ASSIGN(entry.library, Library::load(device, code.cubin));
    entry.spill_bytes = code.spill_bytes;
  }
  if (!entry.function || w.variant.launch.shared_bytes > entry.shared_bytes) {
    TENON_ASSIGN(entry.function,
                 entry.library->function(w.variant.kernel->name, w.variant.launch.shared_bytes));
    entry.shared_bytes = w.variant.launch.shared_bytes;
  }
  w.function = entry.function;
  w.spill_bytes = entry.spill_bytes;
  return {};
}

}  // namespace

Status load(const Device& device, std::span<Wanted> wanted, int* compiled) {
  const NoFork no_fork;
  std::vector<std::shared_ptr<Entry>> entries;
  for (const Wanted& w : wanted) entries.push_back(entry_of(device, w));
  std::vector<Status> statuses(wanted.size());
  std::atomic<size_t> next = 0;
  std::atomic<int> count = 0;
  auto work = [&] {
    for (size_t i; (i = next++) < wanted.size();)
      statuses[i] = load_one(device, *entries[i], wanted[i], count);
  };
  parallel_invoke(kThreads, wanted.size(), work);
  if (compiled) *compiled += count;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!statuses[i].ok()) return statuses[i].at("kernel @" + wanted[i].variant.kernel->name);
  return {};
}

void forget_all() {
  {
    Known& k = immortal<Known>();
    std::lock_guard lock(k.mutex);
    k.code.clear();
  }
  forget_devices();
}

}  // namespace tenon::cuda
