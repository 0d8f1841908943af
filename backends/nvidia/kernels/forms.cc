// See forms.h.
#include "backends/nvidia/kernels/forms.h"

#include "src/base/log.h"

namespace tenon::cuda {

Form DeviceKernel::form(std::span<const int64_t> sizes, int64_t alignment, int64_t longest) const {
  const std::shared_ptr<const jit::Kernel> kernel(lowered_, &lowered_->kernel);
  Form f;
  for (int level = 0; level <= most_relaxed_; ++level) {
    f.variant = jit::cuda_variant(kernel, sizes, device_.description(), alignment, longest, level);
    std::lock_guard lock(mutex_);
    const auto known = find(loaded_, f.variant);
    f.spills = known != loaded_.end() && known->spills;
    if (!f.spills) break;
  }
  return f;
}

CuFunction DeviceKernel::function(const Form& form) const {
  std::lock_guard lock(mutex_);
  const auto known = find(loaded_, form.variant);
  const bool serves =
      known != loaded_.end() && known->variant.launch.shared_bytes >= form.variant.launch.shared_bytes;
  return serves ? known->function : nullptr;
}

void DeviceKernel::add(const Wanted& loaded) {
  std::lock_guard lock(mutex_);
  auto known = find(loaded_, loaded.variant);
  if (known == loaded_.end()) known = loaded_.emplace(known);
  const int64_t most = std::max(loaded.variant.launch.shared_bytes, known->variant.launch.shared_bytes);
  *known = {loaded.variant, loaded.function, loaded.spill_bytes > 0};
  known->variant.launch.shared_bytes = most;
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
          {wanted[i].variant.kernel->name, jit::describe(all[i].form.variant),
           std::to_string(wanted[i].spill_bytes),
           "its threads ran out of registers: an easier schedule takes its place, or two kernels, if there "
           "are any"});
  }
  return {};
}

}  // namespace tenon::cuda
