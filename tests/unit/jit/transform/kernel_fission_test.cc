// A kernel that is cut in two gives the same bits as the whole: random kernels and real ones are cut at the best place, and their
// halves once more. tests/unit/backends/cuda_program_test.cc tests that kernels are cut if they run out of registers.
#include "jit/transform/kernel_fission.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/kernel_gen.h"

namespace tenon::jit {
namespace {

// A lowered kernel with constant sizes; inputs and outputs are the values 0, 1, 2 ...
LoweredKernel lowered(const KernelCase& c) {
  LoweredKernel k{c.kernel, {}, {}, {}, {}, {}};
  for (int64_t size : c.sizes) k.sizes.emplace_back(size);
  for (size_t b = 0; b < c.data.size(); ++b) k.buffers.push_back(static_cast<ValueId>(b));
  return k;
}

void add_pieces(const LoweredKernel& k, DimTable& dims, int depth, std::vector<LoweredKernel>& pieces) {
  auto halves = depth > 0 ? kernel_fission(k, dims, 4) : std::nullopt;
  if (!halves) return pieces.push_back(k);
  add_pieces(halves->first, dims, depth - 1, pieces);
  add_pieces(halves->second, dims, depth - 1, pieces);
}

// Runs the pieces with poisoned temporaries and returns the buffers.
Result<BufferBytes> run(const KernelCase& c, const std::vector<LoweredKernel>& pieces) {
  BufferBytes data = c.data;
  std::map<TempId, std::vector<char>> temps;
  for (const LoweredKernel& k : pieces) {
    TENON_TRY(verify(k.kernel));
    std::vector<BufferView> buffers;
    for (BufferId b : k.buffers) {
      if (const auto* v = std::get_if<ValueId>(&b)) {
        buffers.push_back({data[*v].data(), c.lengths[*v]});
        continue;
      }
      const Temp& t = k.temp(std::get<TempId>(b));
      auto& bytes = temps[std::get<TempId>(b)];
      bytes.resize(static_cast<size_t>(t.length.value()) * size_of(t.type), static_cast<char>(0xA5));
      buffers.push_back({bytes.data(), t.length.value()});
    }
    std::vector<int64_t> sizes;
    for (Dim d : k.sizes) sizes.push_back(d.value());
    TENON_TRY(interpret(k.kernel, buffers, sizes));
  }
  return data;
}

TEST(Cut, RandomKernelsInPieces) {
  constexpr uint64_t kCount = 200;
  uint64_t in_pieces = 0, kept = 0;
  for (uint64_t seed = 1; seed <= kCount && !HasFailure(); ++seed) {
    const KernelCase c = random_kernel(seed);
    BufferBytes whole = c.data;
    ASSERT_TRUE(interpret(c.kernel, views(c, whole), c.sizes).ok());
    DimTable dims;
    std::vector<LoweredKernel> pieces;
    add_pieces(lowered(c), dims, 2, pieces);
    if (pieces.size() < 2) continue;
    ++in_pieces;
    kept += !pieces.back().temps.empty();
    const auto cut_up = run(c, pieces);
    std::string text = "seed " + std::to_string(seed) + "\n" + print(c.kernel);
    for (const LoweredKernel& k : pieces) text += print(k.kernel);
    ASSERT_TRUE(cut_up.ok()) << cut_up.status().message() << "\n" << text;
    EXPECT_EQ(first_difference(c, whole, *cut_up), "") << text;
  }
  EXPECT_GE(in_pieces, kCount / 4) << "the generator makes too little that can be cut";
  EXPECT_GE(kept, kCount / 8);
}

// If an output may share the memory of an input, the second half reads no input behind a write of the first.
TEST(Cut, NotBetweenWhatIsWrittenAndASharedInput) {
  auto kernel = parse_kernel(R"(kernel @f(N; in %x: f32, in %z: f32, out %y: f32) {
  par simd %i in N {
    %a = load %x[%i]
    %b = exp %a
    %c = sin %b
    store %y[2*%i], %c
    %d = load %x[%i]
    %e = exp %d
    %f = cos %e
    store %y[2*%i + 1], %f
  }
})");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  DimTable dims;
  LoweredKernel k{*kernel, {dims.symbol("N")}, {ValueId{0}, ValueId{1}, ValueId{2}}, {}, {}, {}};
  auto stores_first = [&] {
    const auto halves = kernel_fission(k, dims, 4);
    return halves && halves->first.uses(ValueId{2});
  };
  EXPECT_TRUE(stores_first());
  k.inplace = {0};
  EXPECT_FALSE(stores_first());
}

TEST(Cut, LeavesSmallKernelsWhole) {
  auto kernel = parse_kernel(R"(kernel @f(N; in %x: f32, out %y: f32) {
  par simd %i in N {
    %a = load %x[%i]
    %b = exp %a
    store %y[%i], %b
  }
})");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  DimTable dims;
  const LoweredKernel k{*kernel, {dims.symbol("N")}, {ValueId{0}, ValueId{1}}, {}, {}, {}};
  EXPECT_FALSE(kernel_fission(k, dims).has_value());
}

}  // namespace
}  // namespace tenon::jit
