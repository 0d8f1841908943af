// PackedStore: allocates the packed weights of a program from a few large blocks of the host's allocator. A weight is reference
// counted; a block lives as long as one of its weights. Any thread. Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include <memory>
#include <mutex>

#include "src/backend/backend.h"

namespace tenon::library {

class PackedStore {
 public:
  explicit PackedStore(const Allocator& allocator) : allocator_(allocator) {}
  void expect(int64_t bytes);                 // announces one more weight, so that blocks get the right size
  std::shared_ptr<char> take(int64_t bytes);  // throws std::bad_alloc

 private:
  const Allocator allocator_;
  std::mutex mutex_;      // guards the members below
  int64_t expected_ = 0;  // bytes announced and not yet taken
  std::shared_ptr<Arena> block_;
  int64_t used_ = 0;  // bytes of block_
};

}  // namespace tenon::library
