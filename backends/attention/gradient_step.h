// The step of the gradient of attention. Its parallel items are the queries of a head of k, or parts of them. A thread goes through
// groups of rows of an item. It computes the scores of a group at all keys, their softmax and its gradient, which are never stored for
// more than a group. The gradients of k and v are sums over the groups in their order, so they do not depend on the number of threads.
// Tested by tests/unit/backends/attention_test.cc.
#pragma once

#include <array>
#include <vector>

#include "backends/attention/kernels.h"
#include "backends/attention/plan_help.h"
#include "backends/inner/placed_operand.h"

namespace tenon::attention {

using inner::PlacedOperand;

class GradientStep final : public Step {
 public:
  // Set before plan(). q, dy [B,L,H,D], k and v [B,S,Hkv,D]; elements of q, k, v and dy are dense. gradient: the vector of the gradients
  // of q, k and v.
  const GradientKernels* kernels = nullptr;
  float scale = 1;
  bool causal = false;
  int64_t element = 0;  // bytes
  PlacedOperand q, k, v, dy, mask, gradient;
  PlacedOperand kept;                 // with dropout: whether each weight is kept, [B,H,L,S], with dense rows
  float gain = 1;                     // of kept weights
  std::vector<int64_t> mask_strides;  // [batch, head, row, column]
  int64_t batch = 0, heads = 0, key_heads = 0;
  int64_t rows = 0, keys = 0, depth = 0, width = 0;  // width: of a row of v

  Status plan(int most_threads);
  Status run(void* const* buffers, char* scratch, const RunOn& on) const override;
  int64_t scratch_bytes() const override;
  int64_t bytes() const override { return static_cast<int64_t>(sizeof *this) + planned_.bytes; }

 private:
  // The rows of an operand, which are read as f32, or of a gradient.
  struct Rows {
    int buffer = -1;
    int64_t offset = 0, batch = 0, head = 0, row = 0;  // elements: of the first one, and between neighbors
    int64_t length = 0;                                // elements of a row
    int64_t floats = 0;                                // from row to row in scratch memory: whole panels
    bool in_place = false;                             // f32 rows of whole panels
    // Convert the rows of a group, and of a short group, from or to another type; null if there are none or they are only copied. k and v
    // have one group.
    std::unique_ptr<Step> convert, convert_short;
  };
  struct Matrix {  // rows in f32
    const float* at;
    int64_t stride;
  };
  // Scratch memory of a thread: floats in front of each part.
  struct Parts {
    int64_t queries, results, keys, values, key_panels, value_panels, scores, weights, kept_weights, gradient,
        dq, kernel, end;
  };
  struct Run;
  struct Item;
  struct Group;

  int64_t heads_per_key() const { return key_heads > 0 ? heads / key_heads : 0; }
  Status plan_rows();
  Status plan_softmax();
  void plan_scratch();
  // count, short_count: rows of a group and of a short group, or 0.
  Status prepare_operand(Rows& made, const PlacedOperand& operand, int64_t length, int64_t count,
                         int64_t short_count);
  // begin: elements of the gradients in front of this one. shape: of an image of the batch.
  Status prepare_result(Rows& made, int64_t begin, std::array<int64_t, 3> shape, int64_t count,
                        int64_t short_count);
  Item item_of(const Run& run, int thread, int64_t index) const;
  Group group_of(const Item& item, int64_t index) const;
  char* at(const Item& item, const Rows& rows, int64_t head, int64_t row) const;
  char* kernel_scratch(const Item& item) const;
  // These return false if a kernel fails. is_short: the rows are those of a short group.
  bool compute(const Item& item) const;
  bool compute_group(const Item& item, const Group& group, const Matrix& key_rows) const;
  bool compute_weights(const Item& item, const Group& group) const;          // from scores
  bool compute_scores_gradient(const Item& item, const Group& group) const;  // from weights and dy v^T
  bool join(const Run& run, int thread, int64_t head) const;
  bool run_kernel(const Step& step, const void* from, void* to, const Item& item) const;
  bool read(const Rows& rows, const char* from, int64_t count, bool is_short, float* to, const Item& item,
            Matrix& read) const;
  bool write(const Rows& rows, const float* from, int64_t count, bool is_short, char* to,
             const Item& item) const;
  bool write_sums(const Item& item) const;

  int64_t group_ = 0, groups_ = 0;  // rows of a group, groups of a head
  int64_t short_ = 0;               // rows of the last group if they are fewer, else 0
  int64_t parts_of_head_ = 1;       // items of a head of k
  int64_t columns_ = 0;             // floats of a row of scores
  int threads_ = 1;
  Rows q_, dy_, k_, v_, dq_, dk_, dv_;
  Parts parts_ = {};
  int64_t sums_floats_ = 0;  // of the gradients of k and v of an item
  PlannedKernels planned_;
  // For each number of columns that a group computes. The index says whether the group is short.
  std::array<std::vector<std::unique_ptr<Step>>, 2> softmax_, softmax_gradient_;
};

}  // namespace tenon::attention
