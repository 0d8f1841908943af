// See grouped_outer.h.
#include "backends/onednn/steps/grouped_outer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/library/operands.h"
#include "backends/onednn/arrangement.h"
#include "backends/onednn/exit_gate.h"
#include "backends/onednn/steps/group_ends.h"
#include "src/base/align.h"

namespace tenon::onednn {
namespace {

// The numbers of rows that have a product: 1, 2, 3, 4, 6, 8, 12, ...
int64_t after(int64_t rows) {
  return rows + std::max<int64_t>(1, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(rows))) / 2);
}

class GroupedOuterStep final : public Step {
 public:
  struct Product {
    int64_t rows;
    std::shared_ptr<const Arrangement> arrangement;
  };
  std::vector<Product> products;  // by the number of rows; the last one serves all rows
  library::Tensor a, b, output;
  GroupEnds ends;

  int64_t scratch_bytes() const override {
    int64_t most = 0;
    for (const Product& p : products)
      most = std::max(most, copied_bytes(a, p) + copied_bytes(b, p) + p.arrangement->scratch_bytes());
    return ends.scratch_bytes() + most;
  }
  int64_t bytes() const override {
    return static_cast<int64_t>(sizeof *this + products.size() * sizeof products[0]);
  }
  Status run(void* const* buffers, char* scratch, const RunOn&) const override {
    if (output.count() == 0) return {};
    const int64_t* sorted = ends.read(buffers, scratch);
    scratch += ends.scratch_bytes();
    char* to = address(output, buffers);
    int64_t from = 0;
    for (int64_t g = 0; g < ends.groups(); ++g, to += output.strides[0] * size_of(output.dtype)) {
      TENON_TRY(multiply(from, sorted[g] - from, to, buffers, scratch));
      from = sorted[g];
    }
    return {};
  }

 private:
  static char* address(const library::Tensor& t, void* const* buffers) {
    return static_cast<char*>(buffers[t.buffer]) + t.offset;
  }
  static int64_t copied_bytes(const library::Tensor& t, const Product& p) {
    return align_up(p.rows * t.dims[1] * size_of(t.dtype));
  }

  // The product of `count` rows, from row `from` on.
  Status multiply(int64_t from, int64_t count, char* to, void* const* buffers, char* scratch) const {
    if (count == 0) {
      clear(to);
      return {};
    }
    const Product& p = *std::ranges::lower_bound(products, count, {}, &Product::rows);
    char* const b_rows = scratch + copied_bytes(a, p);
    copy(a, from, count, p, buffers, scratch);
    copy(b, from, count, p, buffers, b_rows);
    void* const moved[] = {scratch, b_rows, to};
    return p.arrangement->run(moved, b_rows + copied_bytes(b, p), nullptr);
  }

  // Copies `count` rows and writes zeros behind them.
  static void copy(const library::Tensor& t, int64_t from, int64_t count, const Product& p,
                   void* const* buffers, char* to) {
    const int64_t columns = t.dims[1], item = size_of(t.dtype), step = t.strides[1] * item;
    for (int64_t row = from; row < from + count; ++row) {
      const char* read = address(t, buffers) + row * t.strides[0] * item;
      if (step == item) {
        std::memcpy(to, read, static_cast<size_t>(columns * item));
        to += columns * item;
      } else {
        for (int64_t i = 0; i < columns; ++i, read += step, to += item)
          std::memcpy(to, read, static_cast<size_t>(item));
      }
    }
    std::memset(to, 0, static_cast<size_t>((p.rows - count) * columns * item));
  }

  // Writes zeros to a matrix of the result.
  void clear(char* to) const {
    const int64_t item = size_of(output.dtype), step = output.strides[2] * item;
    for (int64_t row = 0; row < output.dims[1]; ++row) {
      char* at = to + row * output.strides[1] * item;
      if (step == item) {
        std::memset(at, 0, static_cast<size_t>(output.dims[2] * item));
      } else {
        for (int64_t i = 0; i < output.dims[2]; ++i, at += step)
          std::memset(at, 0, static_cast<size_t>(item));
      }
    }
  }
};

}  // namespace

Problem GroupedOuter::of_rows(int64_t count, const Sizes& sizes) const {
  Spec some = one;
  some.operands[0].shape[1] = some.operands[1].shape[0] = Dim(count);
  return at_sizes(some, sizes);
}

Result<std::unique_ptr<Step>> GroupedOuter::prepare(const Sizes& sizes) {
  const InLibrary here;
  TENON_TRY(here.status());
  auto made = std::make_unique<GroupedOuterStep>();
  made->a = library::at_sizes(a, sizes);
  made->b = library::at_sizes(b, sizes);
  made->output = library::at_sizes(output, sizes);
  made->a.buffer = position_of(a.base);
  made->b.buffer = position_of(b.base);
  made->output.buffer = static_cast<int>(inputs.size());
  const int64_t rows = made->a.dims[0];
  made->ends = GroupEnds(ends, position_of(ends.base), rows, sizes);
  if (made->output.count() == 0) return std::unique_ptr<Step>(std::move(made));
  for (int64_t count = 1, last = 0; last < rows; count = after(count)) {
    TENON_ASSIGN(auto product, arrangement_of(one, of_rows(count, sizes)));
    made->products.push_back({count, std::move(product)});
    last = count;
  }
  return std::unique_ptr<Step>(std::move(made));
}

std::unique_ptr<OfGroups> make_grouped_outer(const Graph& graph, ValueId v, const StridesOf& strides_of) {
  const Node& node = graph.node(v);
  auto made = std::make_unique<GroupedOuter>();
  made->a = operand_of(graph, node.inputs[0], strides_of);
  made->b = operand_of(graph, node.inputs[2], strides_of);
  made->output = library::written(graph, v, strides_of);
  const auto array = [&](int buffer, Dims shape, Dims strides) {
    Operand o;
    o.buffer = buffer;  // the position in the list that multiply() passes to a product
    o.dtype = node.type.dtype;
    o.shape = std::move(shape);
    o.strides = std::move(strides);
    return o;
  };
  const Dim count = made->a.shape[0], rows = made->a.shape[1], columns = made->b.shape[1];
  const Dims& strides = made->output.strides;
  made->one.name = "grouped_outer";
  made->one.operands = {array(0, {rows, count}, {Dim(1), rows}),
                        array(1, {count, columns}, {columns, Dim(1)})};
  made->one.output = array(2, {rows, columns}, {strides[1], strides[2]});
  return made;
}

}  // namespace tenon::onednn
