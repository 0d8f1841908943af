// Repeated: a call that a step makes when its fast way to the result has failed, which is rare. It is ready since the plan was made, or
// it is made for one run, with memory of its own. Tested by tests/unit/backends/onednn_test.cc and winograd_test.cc.
#pragma once

#include <memory>

#include "src/backend/backend.h"

namespace tenon::onednn {

class Call;

class Repeated {
 public:
  Repeated() = default;  // there is nothing to repeat
  // ahead: makes the call ready now. The step of `call` that uses the library runs, whatever call.prepare() would choose.
  static Result<Repeated> of(Call& call, const Sizes& sizes, bool ahead);

  explicit operator bool() const { return call_ != nullptr; }
  Status run(void* const* buffers, char* scratch, const RunOn& on) const;
  int64_t scratch_bytes() const { return ready_ ? ready_->scratch_bytes() : 0; }
  int64_t bytes() const;  // besides sizeof

 private:
  Call* call_ = nullptr;
  std::unique_ptr<const Sizes> sizes_;
  std::unique_ptr<const Step> ready_;
};

}  // namespace tenon::onednn
