// See bodies.h. The low half of the seed is the key of philox, the high half is mixed into the counter's, which is the
// place in row-major order: different seeds differ in every block, and so do more places than memory has.
#include "src/ops/body_help.h"

namespace tenon::bodies {

ValueId random_uniform(Builder& b, const Node& node) {
  const ValueId seed = node.inputs[0];
  const Dims shape = attr_as<Dims>(node, "shape");
  auto number = [&](int64_t n) { return b.scalar_int(n, DType::i64); };
  const ValueId place =
      b.reshape(b(ops::iota, {}, {{"shape", Dims{b.dims().product(shape)}}, {"dtype", DType::i64}}), shape);
  const ValueId high = b(ops::bit_and, {seed, number(~int64_t{0xffffffff})});
  const ValueId block = b(ops::philox, {b(ops::bit_xor, {place, high}), seed});
  // The upper 24 bits of the first word; through i32, from which every vector unit has a conversion.
  const ValueId bits = b(ops::bit_and, {b(ops::shift_right, {block, number(8)}), number(0xffffff)});
  const ValueId whole = b.cast(b.cast(bits, DType::i32), DType::f32);
  return b(ops::mul, {whole, b.scalar(0x1p-24, DType::f32)});
}

}  // namespace tenon::bodies
