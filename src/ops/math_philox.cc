// philox in i64 arithmetic. Only the low 32 bits of a word count, so that one mask a round is enough: it shows compilers that
// the factors have 32 bits each, for which vector units have a multiplication. The keys of the rounds depend on
// the key alone and leave the loops with it. Tested by tests/math_test.cc and tests/random_test.cc.
#include "src/ops/math_value.h"
#include "src/ops/scalar.h"

namespace tenon::math {

uint32_t philox(MathBuilder& b, Operands operands) {
  const Val counter(b, operands[0]), low = counter.of_int(0xffffffff),
                                     factor = counter.of_int(scalar::kPhiloxFactor);
  Val x = counter & low, y = counter >> 32, key(b, operands[1]);
  for (int round = 0; round < scalar::kPhiloxRounds; ++round) {
    const Val product = x * factor;
    x = ((product >> 32) ^ (key ^ y)) & low;
    y = product;
    if (round + 1 < scalar::kPhiloxRounds) key = key + key.of_int(scalar::kPhiloxWeyl);
  }
  return (x | (y << 32)).id;
}

}  // namespace tenon::math
