// See handles.h.
#include "backends/nvidia/cudnn/handles.h"

#include <thread>

#include "backends/nvidia/device/libraries.h"

namespace tenon::cudnn {
namespace {

cuda::OfDevices<Handles>& all_handles() { return immortal<cuda::OfDevices<Handles>>(); }

}  // namespace

Result<std::unique_ptr<Handle>> Handle::open(const Library& library, const cuda::Device& device, int number) {
  std::unique_ptr<Handle> h(new Handle(library, device, number));
  const cuda::Current current(device);
  TENON_TRY(current.status());
  const cuda::Relaxed relaxed(device.driver());
  TENON_TRY(library.cudnnCreate(&h->raw_));
  return h;
}

Handle::~Handle() {
  if (!raw_) return;
  const cuda::Current current(device_);
  library_.cudnnDestroy.status_of(raw_);
}

Result<Handles*> Handles::of(int ordinal) {
  TENON_ASSIGN(const Library* library, Library::get());
  return all_handles().at(ordinal, [&](const cuda::Device& device) -> Result<std::unique_ptr<Handles>> {
    return std::make_unique<Handles>(*library, device);
  });
}

Handles::~Handles() {
  while (take()) {
  }
}

std::unique_ptr<Handle> Handles::take() {
  for (std::atomic<Handle*>& place : idle_)
    if (place.load(std::memory_order_relaxed))
      if (Handle* handle = place.exchange(nullptr, std::memory_order_acq_rel))
        return std::unique_ptr<Handle>(handle);
  return nullptr;
}

void Handles::give(std::unique_ptr<Handle> handle) {
  for (std::atomic<Handle*>& place : idle_) {
    Handle* none = nullptr;
    if (!place.compare_exchange_strong(none, handle.get(), std::memory_order_acq_rel)) continue;
    [[maybe_unused]] Handle* idle = handle.release();
    return;
  }
  TENON_CHECK(false, "more handles than places");
}

Result<Handles::Lease> Handles::lease() {
  for (;;) {
    if (Lease handle = idle()) return handle;
    {
      std::lock_guard lock(mutex_);
      if (opened_ < kMost) {
        TENON_ASSIGN(std::unique_ptr<Handle> handle, Handle::open(library, device, opened_));
        ++opened_;
        return Lease(handle.release(), GiveBack{this});
      }
    }
    std::this_thread::yield();
  }
}

void forget_handles() { all_handles().forget(); }

}  // namespace tenon::cudnn
