// The step of attention. Its parallel items are groups of rows of a head, each of which goes through all keys in blocks.
// Tested by tests/unit/backends/attention_test.cc.
#pragma once

#include <array>
#include <vector>

#include "backends/attention/kernels.h"
#include "backends/attention/plan_help.h"
#include "backends/inner/placed_operand.h"

namespace tenon::attention {

using inner::PlacedOperand;

class AttentionStep final : public Step {
 public:
  // Set before plan(). q, y [B,L,H,D], k and v [B,S,H,D]; elements of q, k and v are dense.
  const Kernels* kernels = nullptr;
  float scale = 1;
  bool causal = false;
  DType dtype = DType::f32;  // of q, k and v
  int64_t element = 0;       // its bytes
  PlacedOperand q, k, v, y, mask;
  PlacedOperand kept;                 // with dropout: whether each weight is kept, [B,H,L,S], with dense rows
  float gain = 1;                     // of kept weights
  std::vector<int64_t> mask_strides;  // [batch, head, row, column]
  int64_t batch = 0, heads = 0, heads_per_key = 1;   // heads of q that share a head of k
  int64_t rows = 0, keys = 0, depth = 0, width = 0;  // width: of a row of v

  Status plan(int most_threads);
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override;
  int64_t scratch_bytes() const override {
    return threads_ * parts_.end * static_cast<int64_t>(sizeof(float));
  }
  int64_t bytes() const override { return static_cast<int64_t>(sizeof *this) + planned_.bytes; }

 private:
  // Scratch memory of a thread: floats in front of each part.
  struct Parts {
    int64_t queries, keys, panels, values, scores, weights, products, sums, largest, total, next, factors,
        kernel, end;
  };
  struct Run;
  struct Rows;
  struct Item;
  struct Keys;

  bool widens() const { return kernels->widen != nullptr; }
  Status prepare_kernels();
  void plan_scratch();
  Rows rows_of(int64_t g) const;
  Item item_of(const Run& run, int thread, int64_t index) const;
  // These return false if a kernel fails.
  bool compute(Item item) const;
  bool widen(const Step& step, const char* from, float* to, const Item& item) const;
  bool widen_queries(Item& item) const;
  bool take_keys(const Item& item, Keys& block) const;
  bool compute_block(const Item& item, const Rows& r, const Keys& block, float* sums, float* largest,
                     float* total) const;

  int64_t group_ = 0, groups_ = 0, item_groups_ = 1;  // rows of a group, groups of a head, groups of an item
  int64_t block_ = 0;                                 // keys of a block
  int threads_ = 1;
  bool in_place_ = false;  // few rows, which read each key and value once, where it lies
  bool widens_keys_ = false, copies_values_ = false;
  Parts parts_ = {};
  PlannedKernels planned_;
  // The index says whether the group or the block is a short last one. whole_ and cut_: first of the group, then of the block.
  using Steps = std::array<std::unique_ptr<Step>, 2>;
  std::array<Steps, 2> whole_, cut_;
  Steps quotient_, widen_q_, widen_k_, widen_v_;
};

}  // namespace tenon::attention
