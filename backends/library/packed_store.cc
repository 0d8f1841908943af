// See packed_store.h.
#include "backends/library/packed_store.h"

#include <algorithm>

namespace tenon::library {

void PackedStore::expect(int64_t bytes) {
  std::lock_guard lock(mutex_);
  expected_ += align_up(bytes);
}

std::shared_ptr<char> PackedStore::take(int64_t bytes) {
  constexpr int64_t kBlock = int64_t{64} << 20;
  bytes = align_up(std::max<int64_t>(bytes, 1));
  std::lock_guard lock(mutex_);
  if (!block_ || used_ + bytes > block_->size()) {
    block_ = std::make_shared<Arena>(std::max(bytes, std::min(expected_, kBlock)), allocator_, false);
    used_ = 0;
  }
  std::shared_ptr<char> weight(block_, block_->data() + used_);
  used_ += bytes;
  expected_ = std::max<int64_t>(expected_ - bytes, 0);
  return weight;
}

}  // namespace tenon::library
