// A group as an executable: a recipe, and the packed copies of its constant weights. prepare() chooses a primitive and
// lays out scratch: the library's own, then arrays it does not take in place. A step may run on several threads at
// once: its memory objects come from a pool. Tested by tests/onednn_test.cc.
#pragma once

#include <mutex>

#include "backends/onednn/recipe.h"
#include "src/runtime/backend.h"

namespace tenon::onednn {

struct Packed {
  int operand;
  dnnl::memory memory;
};

class Call final : public Executable {
 public:
  Recipe recipe;
  std::string fallback;  // describe() before the first plan

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override;
  std::string describe() const override;

 private:
  mutable std::mutex mutex_;    // of what follows
  std::vector<Packed> packed_;  // per weight layout that some plan asked for
  std::string text_;
};

// ": bias gelu" and the like, for describe().
std::string post_op_names(const Recipe& recipe, bool bias);

}  // namespace tenon::onednn
