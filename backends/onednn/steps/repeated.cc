// See repeated.h.
#include "backends/onednn/steps/repeated.h"

#include <cstdlib>

#include "backends/onednn/steps/call.h"
#include "src/base/align.h"

namespace tenon::onednn {

Result<Repeated> Repeated::of(Call& call, const Sizes& sizes, bool ahead) {
  Repeated made;
  made.call_ = &call;
  made.sizes_ = std::make_unique<const Sizes>(sizes);
  if (ahead) {
    TENON_ASSIGN(made.ready_, call.prepare_library(sizes));
  }
  return made;
}

Status Repeated::run(void* const* buffers, char* scratch, const RunOn& on) const {
  if (ready_) return ready_->run(buffers, scratch, on);
  TENON_ASSIGN(const std::unique_ptr<Step> step, call_->prepare_library(*sizes_));
  const std::unique_ptr<char, void (*)(void*)> memory(
      static_cast<char*>(
          std::aligned_alloc(kAlign, static_cast<size_t>(align_up(step->scratch_bytes() + 1)))),
      std::free);
  if (!memory) return environment("no memory for a call of oneDNN");
  return step->run(buffers, memory.get(), on);
}

int64_t Repeated::bytes() const {
  return (sizes_ ? static_cast<int64_t>(sizeof *sizes_ + sizes_->symbols.size() * sizeof(int64_t)) : 0) +
         (ready_ ? ready_->bytes() : 0);
}

}  // namespace tenon::onednn
