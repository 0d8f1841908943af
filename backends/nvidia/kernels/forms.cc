// See forms.h.
#include "backends/nvidia/kernels/forms.h"

#include <algorithm>

#include "src/base/log.h"

namespace tenon::cuda {

Form DeviceKernel::form(std::span<const int64_t> sizes, int64_t alignment, int64_t longest) const {
  Form f;
  for (int ease = 0; ease <= most_ease_; ++ease) {
    f.schedule = jit::cuda_schedule(lowered_.kernel, sizes, device_.description(), alignment, longest, ease);
    std::lock_guard lock(mutex_);
    const Loaded* known = find(f.schedule);
    f.spills = known && known->spills;
    if (!f.spills) break;
  }
  f.launch = jit::cuda_launch(lowered_.kernel, f.schedule, sizes, device_.description());
  return f;
}

CuFunction DeviceKernel::function(const Form& form) const {
  std::lock_guard lock(mutex_);
  const Loaded* known = find(form.schedule);
  return known && known->shared_bytes >= form.launch.shared_bytes ? known->function : nullptr;
}

void DeviceKernel::add(const Wanted& loaded) {
  std::lock_guard lock(mutex_);
  auto known = std::find_if(loaded_.begin(), loaded_.end(),
                            [&](const Loaded& l) { return l.schedule == loaded.schedule; });
  if (known == loaded_.end()) known = loaded_.emplace(known);
  *known = {loaded.schedule, loaded.function, std::max(loaded.shared_bytes, known->shared_bytes),
            loaded.spill_bytes > 0};
}

const DeviceKernel::Loaded* DeviceKernel::find(const jit::CudaSchedule& schedule) const {
  for (const Loaded& l : loaded_)
    if (l.schedule == schedule) return &l;
  return nullptr;
}

Status load_missing(const Device& device, std::span<const Missing> all, int* compiled) {
  std::vector<Wanted> wanted;
  for (const Missing& m : all) wanted.push_back(m.kernel->wanted(m.form));
  TENON_TRY(load(device, wanted, compiled));
  for (size_t i = 0; i < wanted.size(); ++i) {
    all[i].kernel->add(wanted[i]);
    if (wanted[i].spill_bytes > 0)
      log_row(
          "schedule", "kernel,schedule,spill_bytes,why",
          {wanted[i].kernel->name, jit::describe(wanted[i].schedule), std::to_string(wanted[i].spill_bytes),
           "its threads ran out of registers: an easier schedule takes its place, or two kernels, if there "
           "are any"});
  }
  return {};
}

}  // namespace tenon::cuda
