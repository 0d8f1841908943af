// A group as an executable: a spec, and the packed copies of its constant weights. prepare() finds the arrangement for the
// sizes, which calls of equal specs share, and packs what it wants packed. A step may run on several threads at once. One that
// makes NaN of a map at its end that may be wrong (spec.h) runs again without it.
// Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include <mutex>

#include "backends/onednn/arrangement.h"
#include "backends/onednn/packed_store.h"
#include "src/runtime/backend.h"

namespace tenon::onednn {

class Call final : public Executable {
 public:
  Spec spec;
  std::string fallback;  // describe() before the first plan
  std::shared_ptr<PackedStore> store;
  std::unique_ptr<Call> exact;  // without the map to redo (spec.h) at its end; null where it ends in none

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override;
  std::string describe() const override;

 private:
  struct Packed {
    Array given;  // of a constant, with symbols the part of it that a plan reads
    dnnl::memory::desc descriptor;
    std::shared_ptr<char> bytes;
  };
  std::shared_ptr<char> packed(const Arrangement::Pack& pack);  // under mutex_

  mutable std::mutex mutex_;    // of what follows
  std::vector<Packed> packed_;  // per weight layout that some plan asked for
  std::shared_ptr<const Arrangement> latest_;
};

}  // namespace tenon::onednn
