// See bodies.h. The element at a position, in row-major order, depends on the position and the seed through
// random_bits (scalar.h).
#include "src/ops/bodies/body_help.h"

namespace tenon::bodies {

ValueId random_uniform(Builder& b, const Node& node) {
  const Dims shape = attr_as<Dims>(node, "shape");
  auto number = [&](int64_t n) { return b.scalar_int(n, DType::i32); };
  const ValueId place =
      b.reshape(b(ops::iota, {}, {{"shape", Dims{b.dims().product(shape)}}, {"dtype", DType::i64}}), shape);
  const ValueId word = b(ops::random_bits, {place, node.inputs[0]});
  // The upper 24 bits.
  const ValueId bits = b(ops::bit_and, {b(ops::shift_right, {word, number(8)}), number(0xffffff)});
  return b(ops::mul, {b.cast(bits, DType::f32), b.scalar(0x1p-24, DType::f32)});
}

}  // namespace tenon::bodies
