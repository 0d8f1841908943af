// See group_ends.h.
#include "backends/onednn/steps/group_ends.h"

#include <algorithm>
#include <cstring>

#include "src/base/align.h"

namespace tenon::onednn {

GroupEnds::GroupEnds(const Operand& ends, int position, int64_t rows, const Sizes& sizes)
    : position_(position), rows_(rows), wide_(ends.dtype == DType::i64) {
  const int64_t item = size_of(ends.dtype);
  offset_ = sizes.eval(ends.offset) * item;
  step_ = sizes.eval(ends.strides[0]) * item;
  groups_ = sizes.eval(ends.shape[0]);
}

int64_t GroupEnds::scratch_bytes() const { return align_up(groups_ * static_cast<int64_t>(sizeof(int64_t))); }

const int64_t* GroupEnds::read(void* const* buffers, char* scratch) const {
  auto* sorted = reinterpret_cast<int64_t*>(scratch);
  const char* from = static_cast<const char*>(buffers[position_]) + offset_;
  for (int64_t g = 0; g < groups_; ++g, from += step_) {
    int64_t end = 0;
    if (wide_) {
      std::memcpy(&end, from, sizeof end);
    } else {
      int32_t narrow;
      std::memcpy(&narrow, from, sizeof narrow);
      end = narrow;
    }
    sorted[g] = std::clamp<int64_t>(end, 0, rows_);
  }
  std::sort(sorted, sorted + groups_);
  return sorted;
}

}  // namespace tenon::onednn
