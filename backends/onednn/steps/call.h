// Call: the executable of a group: a spec, and the packed copies of its constant weights. prepare() finds the arrangement for the
// sizes, which equal calls share, and packs the weights for it. Some convolutions have a step of their own (winograd.h). A step may
// run on several threads at once. If the spec ends in a map that the library computes wrongly for infinities (redone() of spec.h)
// and a result has NaN, the step runs the spec again without the map and computes the map itself.
// Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include <mutex>

#include "backends/library/call.h"
#include "backends/onednn/arrangement.h"
#include "backends/onednn/steps/winograd.h"

namespace tenon::onednn {

class Call final : public library::Call {
 public:
  Spec spec;
  std::shared_ptr<library::PackedStore> store;
  std::unique_ptr<Call> exact;  // the same call without the map at its end; null: there is no map to redo

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override;
  Result<std::unique_ptr<Step>> prepare_library(const Sizes& sizes);  // the step that uses the library
  // Only the repeated call takes memory, unless prepare() has made it ready.
  bool may_fail() const override { return (exact != nullptr || may_use_winograd(spec)) && !ahead_; }
  void take_ahead() override { ahead_ = true; }

  // A spec at the sizes of a plan.
  struct Ready {
    std::shared_ptr<const Arrangement> arrangement;
    std::vector<std::shared_ptr<char>> packed;  // keeps the packed weights alive
    std::vector<void*> fixed;                   // their addresses

    int64_t scratch_bytes() const { return arrangement ? arrangement->scratch_bytes() : 0; }
  };

 private:
  class LibraryStep;
  struct Packed {
    Array given;  // the constant, or the part of it that a plan reads at its sizes
    dnnl::memory::desc descriptor;
    std::shared_ptr<char> bytes;
  };
  // spec: of this call or of `exact`, which read the same operands.
  Result<Ready> ready(const Spec& spec, const Problem& asked);
  Result<std::unique_ptr<LibraryStep>> library_step(const Problem& asked, const Sizes& sizes);
  Result<std::unique_ptr<Step>> three_step(const WindowsOfThree& problem, const Problem& asked,
                                           const Sizes& sizes);
  std::shared_ptr<char> packed(const Arrangement::Pack& pack);  // the caller holds mutex_

  bool ahead_ = false;
  std::mutex mutex_;            // guards packed_
  std::vector<Packed> packed_;  // one per weight and layout that some plan asked for
  TransformedWindows windows_;
};

}  // namespace tenon::onednn
