// PlacedOperand: an operand or a result at the sizes of a plan, as an offset, a shape and strides in one of the step's buffers.
// Tested by tests/unit/backends/recurrent_test.cc.
#pragma once

#include <vector>

#include "src/backend/backend.h"
#include "src/ops/eval/host_tensor.h"
#include "src/ops/rules/operand.h"

namespace tenon::inner {

struct PlacedOperand {
  int buffer = -1;                             // -1: no such operand
  int64_t offset = 0;                          // elements
  std::vector<int64_t> shape, strides, dense;  // dense: row-major strides of the shape

  PlacedOperand() = default;
  PlacedOperand(const Operand& o, const Sizes& sizes)
      : buffer(o.buffer),
        offset(sizes.eval(o.offset)),
        shape(sizes.eval(o.shape)),
        strides(sizes.eval(o.strides)) {
    dense = dense_strides(shape);
  }
  bool used() const { return buffer >= 0; }
  float* of(void* const* buffers) const {
    return used() ? static_cast<float*>(buffers[buffer]) + offset : nullptr;
  }
  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t n : shape) count *= n;
    return count;
  }
  // Whether rows are dense, so that steps read them in place.
  bool has_rows() const { return strides.back() == 1 || shape.back() <= 1; }
  void copy_to(float* to, void* const* buffers) const {
    copy_strided(reinterpret_cast<const char*>(of(buffers)), strides, reinterpret_cast<char*>(to), dense,
                 shape, static_cast<int64_t>(sizeof(float)));
  }
};

// Operand i of the node that an executable runs, with its position among the buffers. e.inputs is set already.
inline Operand operand_in(const BuildContext& context, const Executable& e, const Node& node, size_t i) {
  Operand o = operand_of(context.graph, node.inputs[i], [&](ValueId x) { return context.strides_of(x); });
  o.buffer = e.position_of(o.base);
  return o;
}
// The only result of an executable, likewise.
inline Operand result_in(const BuildContext& context, const Executable& e, ValueId v) {
  Operand o = stored_operand(context.graph, v);
  o.strides = context.layouts[v].strides;
  o.buffer = static_cast<int>(e.inputs.size());
  return o;
}

}  // namespace tenon::inner
