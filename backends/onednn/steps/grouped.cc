// See grouped.h.
#include "backends/onednn/steps/grouped.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/library/operands.h"
#include "backends/onednn/arrangement.h"
#include "backends/onednn/exit_gate.h"
#include "backends/onednn/steps/group_ends.h"

namespace tenon::onednn {
namespace {

class GroupedStep final : public Step {
 public:
  std::vector<std::shared_ptr<const Arrangement>>
      products;  // of 1, 2, 4, ... rows; empty: no output elements
  int64_t rows = 0, columns = 0;
  GroupEnds ends;
  struct Walk {
    int buffer = -1;
    int64_t offset = 0, step = 0;  // bytes; products have the offsets of source and matrices
  } source, matrices, output;
  int64_t column_step = 0;  // bytes between columns of the output
  int64_t item = 0;         // bytes of an element of the output

  int64_t scratch_bytes() const override {
    int64_t most = 0;
    for (const auto& p : products) most = std::max(most, p->scratch_bytes());
    return ends.scratch_bytes() + most;
  }
  int64_t bytes() const override {
    return static_cast<int64_t>(sizeof *this + products.size() * sizeof products[0]);
  }
  Status run(void* const* buffers, char* scratch, const RunOn&) const override {
    if (products.empty()) return {};
    const int64_t* sorted = ends.read(buffers, scratch);
    int64_t from = 0;
    for (int64_t g = 0; g < ends.groups(); from = sorted[g++]) {
      const int64_t count = sorted[g] - from;
      if (count == 0) continue;
      const int size = std::bit_width(static_cast<uint64_t>(count)) - 1;
      TENON_TRY(multiply(size, from, g, buffers, scratch));
      if (const int64_t rest = count - (int64_t{1} << size); rest > 0) {
        const int last = std::bit_width(static_cast<uint64_t>(rest - 1));
        TENON_TRY(multiply(last, sorted[g] - (int64_t{1} << last), g, buffers, scratch));
      }
    }
    for (; from < rows; ++from) clear(static_cast<char*>(buffers[output.buffer]) + from * output.step);
    return {};
  }

 private:
  // Multiplies 2^size rows, from row `from` on, by matrix g.
  Status multiply(int size, int64_t from, int64_t g, void* const* buffers, char* scratch) const {
    auto at = [&](const Walk& w, int64_t i) { return static_cast<char*>(buffers[w.buffer]) + i * w.step; };
    void* const moved[] = {at(source, from), at(matrices, g), at(output, from)};
    return products[static_cast<size_t>(size)]->run(moved, scratch + ends.scratch_bytes(), nullptr);
  }

  void clear(char* row) const {
    row += output.offset;
    for (int64_t i = 0; i < columns; ++i, row += column_step) std::memset(row, 0, static_cast<size_t>(item));
  }
};

}  // namespace

Problem Grouped::of_rows(int64_t count, const Sizes& sizes) const {
  Spec some = one;
  some.operands[0].shape[0] = some.output.shape[0] = Dim(count);
  return at_sizes(some, sizes);
}

Result<std::unique_ptr<Step>> Grouped::prepare(const Sizes& sizes) {
  const InLibrary here;
  TENON_TRY(here.status());
  auto made = std::make_unique<GroupedStep>();
  made->rows = sizes.eval(rows);
  made->columns = sizes.eval(one.output.shape[1]);
  made->item = size_of(one.output.dtype);
  auto bytes = [&](Dim elements) { return sizes.eval(elements) * made->item; };
  made->source = {position_of(one.operands[0].base), 0, bytes(one.operands[0].strides[0])};
  made->matrices = {position_of(one.operands[1].base), 0, bytes(step)};
  made->output = {static_cast<int>(inputs.size()), bytes(one.output.offset), bytes(one.output.strides[0])};
  made->column_step = bytes(one.output.strides[1]);
  made->ends = GroupEnds(ends, position_of(ends.base), made->rows, sizes);
  for (int64_t count = 1; count <= made->rows; count *= 2) {
    const Problem asked = of_rows(count, sizes);
    if (asked.empty) break;
    TENON_ASSIGN(auto product, arrangement_of(one, asked));
    made->products.push_back(std::move(product));
  }
  return std::unique_ptr<Step>(std::move(made));
}

std::unique_ptr<OfGroups> make_grouped(const Graph& graph, ValueId v, const StridesOf& strides_of) {
  const Node& node = graph.node(v);
  auto made = std::make_unique<Grouped>();
  Spec& one = made->one;
  one.name = "grouped_matmul";
  one.output = library::written(graph, v, strides_of);
  Operand matrix = operand_of(graph, node.inputs[2], strides_of);
  made->step = matrix.strides[0];
  matrix.shape.erase(matrix.shape.begin());
  matrix.strides.erase(matrix.strides.begin());
  matrix.constant = nullptr;  // the matrix changes with the group, so it is not packed but read in place
  one.operands = {operand_of(graph, node.inputs[0], strides_of), std::move(matrix)};
  one.operands[0].buffer = 0;  // positions in the list that multiply() passes to a product
  one.operands[1].buffer = 1;
  one.output.buffer = 2;
  made->rows = node.type.shape[0];
  return made;
}

}  // namespace tenon::onednn
