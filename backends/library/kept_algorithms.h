// KeptAlgorithms: the algorithms of a library that the process keeps, by problem, device, alignment of the pointers and bytes of
// workspace. An algorithm is made once, also if several threads ask at once; those asked for most recently stay. Any thread.
// Tested by tests/unit/backends/cublaslt_test.cc and tests/unit/backends/cudnn_test.cc.
#pragma once

#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/base/threads/single_flight_lru.h"

namespace tenon::library {

template <class Algorithm>
class KeptAlgorithms {
 public:
  static KeptAlgorithms& get() {
    static auto& kept = *new KeptAlgorithms;  // steps may outlive static destruction
    return kept;
  }
  // problem: its key. make() returns a Result of a shared pointer; a failure is not kept.
  template <class Make>
  Result<std::shared_ptr<const Algorithm>> at(int device, int64_t alignment, int64_t most_workspace,
                                              const std::string& problem, const Make& make) {
    const auto entry = all_.at(std::to_string(device) + " " + std::to_string(alignment) + " " +
                               std::to_string(most_workspace) + " " + problem);
    std::lock_guard lock(entry->mutex);
    if (!entry->value) {
      TENON_ASSIGN(entry->value, make());
    }
    return entry->value;
  }
  void forget() { all_.clear(); }

 private:
  static constexpr size_t kMost = 4096;
  SingleFlightLru<const Algorithm> all_{kMost};
};

}  // namespace tenon::library
