// See dense_rows.h. A copy is one more buffer of the step behind it.
#include "backends/inner/dense_rows.h"

#include <algorithm>

#include "src/base/align.h"

namespace tenon::inner {

class DenseRows::CopyingStep final : public Step {
 public:
  CopyingStep(DenseRows rows, std::unique_ptr<Step> step)
      : rows_(std::move(rows)), step_(std::move(step)), first_(align_up(step_->scratch_bytes())) {}

  Status run(void* const* buffers, char* scratch, const RunOn& on) const override {
    char* memory = scratch + first_;
    auto** all = reinterpret_cast<void**>(memory + rows_.bytes_);
    std::copy_n(buffers, rows_.buffers_, all);
    for (size_t i = 0; i < rows_.copies_.size(); ++i) {
      const Copy& copy = rows_.copies_[i];
      const PlacedOperand& from = copy.from;
      all[rows_.buffers_ + i] = memory + copy.at;
      copy_strided(static_cast<const char*>(buffers[from.buffer]) + from.offset * copy.item, from.strides,
                   memory + copy.at, from.dense, from.shape, copy.item);
    }
    return step_->run(all, scratch, on);
  }
  int64_t scratch_bytes() const override {
    const size_t pointers = rows_.buffers_ + rows_.copies_.size();
    return first_ + rows_.bytes_ + static_cast<int64_t>(pointers * sizeof(void*));
  }
  int64_t bytes() const override {
    return static_cast<int64_t>(sizeof *this + rows_.copies_.capacity() * sizeof(Copy)) + step_->bytes();
  }

 private:
  DenseRows rows_;
  std::unique_ptr<Step> step_;
  int64_t first_;  // bytes of scratch in front of the copies
};

void DenseRows::copy(PlacedOperand& operand, int64_t item) {
  copies_.push_back({operand, item, bytes_});
  bytes_ = align_up(bytes_ + operand.elements() * item);
  operand.buffer = static_cast<int>(buffers_ + copies_.size() - 1);
  operand.offset = 0;
  operand.strides = operand.dense;
}

std::unique_ptr<Step> DenseRows::before(std::unique_ptr<Step> step) && {
  if (copies_.empty()) return step;
  return std::make_unique<CopyingStep>(std::move(*this), std::move(step));
}

}  // namespace tenon::inner
