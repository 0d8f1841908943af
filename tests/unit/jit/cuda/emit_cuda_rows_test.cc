// Every map row and every cast as CUDA text, in every type, compared with the interpreter: bit for bit if the row is exact, otherwise
// within the ulp column of the row, over the row's domain, every exponent and special values; also with approximate functions.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "tests/support/kernel_gen.h"
#include "tests/support/nvidia/cuda_memory.h"
#include "tests/support/nvidia/cuda_rows.h"
#include "tests/support/nvidia/cuda_run.h"
#include "tests/support/nvidia/cuda_variant.h"

namespace tenon::jit {
namespace {

constexpr int64_t kCount = 4096;
constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNaN = std::numeric_limits<double>::quiet_NaN();

double number(DType t, const char* p) {
  switch (t) {
    case DType::f32: return *reinterpret_cast<const float*>(p);
    case DType::f64: return *reinterpret_cast<const double*>(p);
    case DType::bf16: {
      uint16_t bits;
      std::memcpy(&bits, p, 2);
      return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    }
    default: return 0;
  }
}

std::vector<char> numbers(DType type, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<char> bytes(static_cast<size_t>(kCount * size_of(type)));
  const std::vector<double> special{
      0,   -0.0, 1,        -1,    0.5,    -0.5,           2,      -2,  3,   10,   kInf, -kInf,  kNaN,
      1e5, -1e5, 0x1p-126, 1e-40, -1e-40, 0x1.fffffep127, 0x1p24, 1.5, 2.5, -1.5, -2.5, 0x1p62, -0x1p62,
      127, -128, 255,      0x1p31};
  for (int64_t i = 0; i < kCount; ++i) {
    char* at = bytes.data() + i * size_of(type);
    const size_t n = special.size();
    // First pairs of special numbers, then the range in which most functions change, then all numbers.
    const uint64_t place = static_cast<uint64_t>(i);
    double v = std::uniform_real_distribution<double>(-10, 10)(random);
    if (place < n * n) v = special[seed == 1 ? place % n : place / n];
    if (type == DType::f32) {
      const float f = i % 3 || place < n * n ? static_cast<float>(v)
                                             : std::bit_cast<float>(static_cast<uint32_t>(random()));
      std::memcpy(at, &f, 4);
    } else if (type == DType::f64) {
      const double d = i % 3 || place < n * n ? v : std::bit_cast<double>(random());
      std::memcpy(at, &d, 8);
    } else if (type == DType::b8) {
      *at = static_cast<char>(random() & 1);
    } else {
      const uint64_t bits = i % 3   ? static_cast<uint64_t>(static_cast<int64_t>(random() % 21) - 10)
                            : i % 2 ? random()
                                    : uint64_t{1} << random() % 64;
      std::memcpy(at, &bits, static_cast<size_t>(size_of(type)));
    }
  }
  return bytes;
}

KernelCase case_of(const RowsKernel& rows, DType type) {
  KernelCase c;
  c.kernel = rows.kernel;
  c.sizes = {kCount};
  for (size_t b = 0; b < c.kernel.buffers.size(); ++b) {
    const DType t = c.kernel.buffers[b].type;
    c.lengths.push_back(kCount);
    c.data.push_back(b < 4 ? numbers(t, b == 0 || t != type ? 1 : b + 1)
                           : std::vector<char>(static_cast<size_t>(kCount * size_of(t)), '\x55'));
  }
  return c;
}

// The distance in units of the last place of `want` in this type.
double apart(DType t, double got, double want) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : kInf;
  if (got == want) return 0;
  if (std::isinf(got) || std::isinf(want)) {
    const double most =
        t == DType::f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
    return std::min(std::fabs(got), std::fabs(want)) > most * (1 - 0x1p-7)
               ? 1
               : kInf;  // only one of them overflows
  }
  const int digits = t == DType::f64    ? 53
                     : t == DType::bf16 ? 8
                                        : 24,
            smallest = t == DType::f64 ? -1021 : -125;
  int exponent;
  std::frexp(want, &exponent);
  return std::fabs(got - want) / std::ldexp(1.0, std::max(exponent, smallest) - digits);
}

// The permitted distance for a float row; 0 requires equal bits.
double tolerance_of(const Op& row, DType result) {
  if (result == DType::bf16) return 1;
  return row.ulp == 0 ? 0 : result == DType::f64 ? 2048 : row.ulp + 3;
}

void check(DType type, bool narrow) {
  const RowsKernel rows = rows_kernel(type, narrow);
  const KernelCase c = case_of(rows, type);
  CudaKernel kernel = variant_of(c.kernel, c.sizes, {}, 16, 1 << 20);
  EXPECT_EQ(kernel.schedule.approximate, false) << "an output of f32 or of 64 bits is there";
  kernel.schedule.approximate = narrow;
  const auto program = CudaProgram::compile({kernel});
  ASSERT_TRUE(program.ok()) << "every row needs a function tn_ROW in jit/cuda/cuda_prelude.cuh\n"
                            << program.status().message();
  BufferBytes want = c.data;
  const Status done = interpret(c.kernel, views(c, want), c.sizes);
  ASSERT_TRUE(done.ok()) << done.message();
  Memory memory(c.data);
  ASSERT_EQ((*program)->run(kernel, memory.pointers.data(), c.sizes, kThreadOrders[0]), "");
  ASSERT_TRUE(memory.intact());
  const BufferBytes got = memory.bytes();
  for (size_t o = 0; o < rows.outputs.size(); ++o) {
    const RowsKernel::Output& output = rows.outputs[o];
    const Op& row = op(output.row);
    const DType t = c.kernel.buffers[o + 4].type;
    int wrong = 0;
    for (int64_t i = 0; i < kCount && wrong < 3; ++i) {
      const char *g = got[o + 4].data() + i * size_of(t), *w = want[o + 4].data() + i * size_of(t);
      if (same_element(t, g, w)) continue;
      double x[3] = {};
      bool inside = true;
      for (size_t a = 0; a < output.operands.size() && is_float(output.operands[a]); ++a) {
        x[a] = number(output.operands[a], c.data[a].data() + i * size_of(output.operands[a]));
        inside = inside && (!std::isfinite(x[a]) || x[a] == 0 || (x[a] >= row.low && x[a] <= row.high));
      }
      if (output.cast && is_float(type) && !is_float(t)) continue;  // the type cannot hold these numbers
      if (!output.cast && !inside && tolerance_of(row, t) > 0) continue;
      if (is_float(t) && apart(t, number(t, g), number(t, w)) <= (output.cast ? 0 : tolerance_of(row, t)))
        continue;
      // The approximate erfc falls to 0 below 5e-10 (jit/cuda/cuda_prelude.cuh).
      if (t == DType::bf16 && std::fabs(number(t, g) - number(t, w)) < 1e-9) continue;
      ++wrong;
      ADD_FAILURE() << (output.cast ? "cast" : row.name) << " of " << name(type) << " to " << name(t) << ": "
                    << x[0] << " " << x[1] << " " << x[2] << " at " << i << ": " << number(t, g) << ", "
                    << number(t, w) << " is wanted";
    }
  }
}

TEST(EmitCudaRows, OfEveryType) {
  for (DType type :
       {DType::f32, DType::f64, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8, DType::b8}) {
    SCOPED_TRACE(name(type));
    check(type, false);
  }
}

TEST(EmitCudaRows, Approximate) { check(DType::f32, true); }

// The kernels have all rows of the table.
TEST(EmitCudaRows, AllOfThem) {
  std::set<OpId> seen;
  for (DType type : {DType::f32, DType::i64, DType::i32, DType::b8})
    for (const RowsKernel::Output& o : rows_kernel(type).outputs)
      if (!o.cast) seen.insert(o.row);
  for (OpId id = 0; id < op_count(); ++id) {
    const Op& row = op(id);
    const bool scalar = row.kind == Kind::map && (row.eval || row.eval_int) &&
                        !calls_host(row, row.eval ? DType::f32 : DType::i64);
    EXPECT_EQ(scalar, seen.count(id) > 0) << op(id).name;
  }
}

}  // namespace
}  // namespace tenon::jit
