// Rows that a cluster of blocks shares, as CUDA text on the host: compared with the interpreter bit for bit, with data whose sums
// are exact in any order; and with faults planted in the text.
#include <gtest/gtest.h>

#include "tests/support/nvidia/cuda_check.h"

namespace tenon::jit {
namespace {

// $T is the type of the tensors. Two folds, where the second reads the result of the first, and a row that is kept.
constexpr const char* kRows = R"(kernel @rows(N, M; in %x: $T, out %y: $T, out %m: $T; local %row: $T[M]) {
  par %i in N {
    %most = reduce maximum simd %j in M {
      %v = load %x[M*%i + %j]
      yield %v
    }
    %sum, %least = reduce add, minimum simd %j2 in M {
      %v2 = load %x[M*%i + %j2]
      %d = sub %most, %v2
      store %row[%j2], %d
      yield %d, %d
    }
    %all = add %sum, %least
    store %m[%i], %all
    for simd %j3 in M {
      %e = load %row[%j3]
      %q = sub %all, %e
      store %y[M*%i + %j3], %q
    }
  }
})";

KernelCase rows_case(DType type, int64_t n, int64_t m) {
  std::string text = kRows;
  for (size_t at; (at = text.find("$T")) != text.npos;) text.replace(at, 2, name(type));
  const auto kernel = parse_kernel(text);
  TENON_CHECK(kernel.ok(), kernel.status().message());
  KernelCase c;
  c.kernel = *kernel;
  c.sizes = {n, m};
  c.lengths = {n * m, n * m, n};
  std::mt19937 random(static_cast<unsigned>(n * 31 + m));
  for (int64_t length : c.lengths) c.data.emplace_back(static_cast<size_t>(length) * size_of(type), '\x5a');
  for (int64_t e = 0; e < n * m; ++e) {
    const int64_t value = static_cast<int64_t>(random() % 1000) - 500;
    char* to = c.data[0].data() + e * size_of(type);
    auto put = [&](auto element) { std::memcpy(to, &element, sizeof element); };
    if (type == DType::f32)
      put(static_cast<float>(value));
    else if (type == DType::f64)
      put(static_cast<double>(value));
    else if (type == DType::i64)
      put(value);
    else if (type == DType::i32)
      put(static_cast<int32_t>(value));
    else
      put(static_cast<int16_t>(value));
  }
  return c;
}

CudaSchedule cluster_of(int blocks, int vector, int64_t m, bool in_registers) {
  CudaSchedule s;
  s.form = CudaSchedule::Form::row;
  s.block = s.team = 64;
  s.cluster = blocks;
  s.vector = vector;
  s.whole = m % vector == 0;
  s.locals = in_registers ? CudaSchedule::Locals::registers : CudaSchedule::Locals::shared;
  const int64_t step = int64_t{blocks} * s.block * vector;
  if (in_registers) s.chunks = static_cast<int>(std::max<int64_t>((m + step - 1) / step, 1));
  return s;
}

TEST(EmitCudaClusters, RowsAgree) {
  std::vector<CudaTry> tries;
  int next = 0;
  for (DType type : {DType::f32, DType::f64, DType::i64, DType::i32, DType::i16})
    for (int blocks : {2, 4, 8})
      for (bool in_registers : {true, false}) {
        if (type != DType::f32 && blocks != (type == DType::f64 ? 2 : 8)) continue;
        for (const auto& [n, m] : std::vector<std::pair<int64_t, int64_t>>{
                 {0, 64}, {3, 0}, {1, 1}, {2, 127}, {1, 257}, {5, 512}, {1, 2048}, {2, 3001}}) {
          const int vector = n == 1 || m % 4 == 0 ? 4 : 1;  // every row begins at a multiple of the vector
          CudaTry t{rows_case(type, n, m), {}};
          t.kernel = {t.c.kernel, cluster_of(blocks, vector, m, in_registers)};
          t.kernel.kernel.name += "_" + std::to_string(next++);
          tries.push_back(std::move(t));
        }
      }
  for (const CudaTry& t : tries) {
    const CudaLaunch l = cuda_launch(t.kernel.kernel, t.kernel.schedule, t.c.sizes, {});
    EXPECT_EQ(l.cluster, t.kernel.schedule.cluster) << t.words();
    EXPECT_EQ(l.blocks, t.c.sizes[0] * l.cluster) << t.words();
  }
  check_tries(tries);
}

struct ClusterFault {
  const char* what;
  bool in_registers;
  const char *from, *to;
  int64_t blocks = INT64_MAX;
};

TEST(EmitCudaClusters, PlantedFaultsAreFound) {
  const ClusterFault faults[] = {
      {"nothing", true, "", ""},
      {"nothing", false, "", ""},
      {"no barrier between the blocks' sums", true, "  tn_cluster_barrier();\n  union", "  union"},
      {"one place for all sums", true, "parts[turn]", "parts[0]"},
      {"blocks end before their sums are read", false, "\n  tn_cluster_barrier();\n}", "\n}"},
      {"every block does all of the row", false, "tn_cluster_rank<4>() * 64", "tn_cluster_rank<4>() * 0"},
      {"steps whose locals overlap", false, "own += 256", "own += 128"},
      {"a grid that is no whole cluster", true, "", "", 7},
  };
  for (const ClusterFault& f : faults) {
    const KernelCase c = rows_case(DType::f32, 2, 3000);
    check_fault({c, {c.kernel, cluster_of(4, 4, 3000, f.in_registers)}, {}, f.blocks}, f.what,
                planted(f.from, f.to));
  }
}

}  // namespace
}  // namespace tenon::jit
