// PackedStore: the memory of a program's packed weights, cut from few large blocks of the host's allocator. A weight lives
// as long as someone holds it, a block as long as one of its weights. Any thread. Tested by tests/unit/backends/onednn_test.cc.
#pragma once

#include <memory>
#include <mutex>

#include "src/runtime/backend.h"

namespace tenon::onednn {

class PackedStore {
 public:
  explicit PackedStore(const Allocator& allocator) : allocator_(allocator) {}
  void expect(int64_t bytes);                 // of one more weight that may come
  std::shared_ptr<char> take(int64_t bytes);  // throws std::bad_alloc

 private:
  const Allocator allocator_;
  std::mutex mutex_;      // of what follows
  int64_t expected_ = 0;  // bytes
  std::shared_ptr<Arena> block_;
  int64_t used_ = 0;  // bytes of block_
};

}  // namespace tenon::onednn
