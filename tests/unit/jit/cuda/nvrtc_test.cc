// Compiles CUDA text with NVRTC, which needs no GPU: every schedule compiles for every architecture, spills nothing and leaves enough
// registers for its threads; vectors are vectors in the PTX; the number of instructions per element does not grow. If no NVRTC is
// found, the tests are skipped with the list of searched places; `./dev test --only nvidia` runs them with NVRTC 12.
#include <atomic>
#include <map>
#include <thread>

#include "jit/cuda/cuda_code.h"
#include "jit/cuda/emit_cuda.h"
#include "tests/support/nvidia/cuda_broadcast.h"
#include "tests/support/nvidia/cuda_devices.h"
#include "tests/support/nvidia/cuda_kernels.h"
#include "tests/support/nvidia/cuda_online.h"
#include "tests/support/nvidia/cuda_rows.h"
#include "tests/support/nvidia/cuda_transposing.h"
#include "tests/support/nvidia/cuda_variant.h"
#include "tests/support/nvidia/nvrtc_help.h"

namespace tenon::jit {
namespace {

struct Built {
  CudaSchedule schedule;
  CudaBinary binary;
  std::string what;
};
// Compiles a kernel. If it spills because its blocks leave registers to others, compiles the form in which they do not.
Result<Built> build(const Kernel& kernel, const std::vector<int64_t>& sizes, int architecture,
                    bool ptx = false) {
  Built b;
  for (int level = 0; level <= 1; ++level) {
    const KernelVariant v = variant_of(kernel, sizes, {}, 16, 1 << 20, level);
    b.schedule = v.schedule;
    b.what = kernel.name + " sm_" + std::to_string(architecture) + " " + describe(v);
    TENON_ASSIGN(b.binary, (*nvrtc())->compile(cuda_source(*v.kernel, b.schedule), kernel.name, architecture,
                                               b.schedule.approximate, ptx));
    if (b.binary.spill_bytes == 0 || b.schedule.resident == 1) break;
  }
  return b;
}
Result<Built> build(int text, DType type, int64_t n, int64_t m, int architecture, bool ptx = false) {
  const KernelCase c = real_case(kCudaTexts[text], type, n, m);
  TENON_ASSIGN(Built b, build(c.kernel, c.sizes, architecture, ptx));
  b.what += " " + std::string(name(type)) + " " + std::to_string(n) + "x" + std::to_string(m);
  return b;
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// The form of a kernel that some device would run.
struct Form {
  Kernel kernel;
  CudaSchedule schedule;
  int architecture;
  std::string text, words, what;
};

// Kernels of real groups, maps that read operands repeatedly and maps that transpose: for every device, short and long rows, every
// relax level, and wide indices.
std::vector<Form> every_form() {
  std::vector<Form> forms;
  std::set<std::pair<int, std::string>> known;
  auto add = [&](const Kernel& kernel, std::vector<int64_t> sizes, const CudaDevice& device, DType type,
                 int level) {
    sizes.resize(kernel.sizes.size());
    for (int64_t longest : {int64_t{1} << 20, int64_t{-1}}) {
      const KernelVariant v = variant_of(kernel, sizes, device, 16, longest, level);
      Form f{*v.kernel, v.schedule, device.architecture, cuda_source(*v.kernel, v.schedule), describe(v), {}};
      if (!known.emplace(f.architecture, f.text).second) continue;
      f.what = kernel.name + " " + std::string(name(type)) + " for " + device.name + ", sm_" +
               std::to_string(f.architecture) + ", relax level " + std::to_string(level) + ": " + describe(v);
      forms.push_back(std::move(f));
    }
  };
  for (const char* name : {"A100", "RTX 4090", "H100", "B200", "RTX 5090"}) {
    // There are no descriptions of the last two yet.
    CudaDevice device = cuda_device(name[0] == 'B' ? "H200" : name[4] == '5' ? "RTX 4090" : name);
    device.name = name;
    if (name[0] == 'B') device.architecture = 100;
    if (name[4] == '5') device.architecture = 120;
    const bool first = device.architecture == 90, older = device.architecture == 80;
    using Sizes = std::vector<std::pair<int64_t, int64_t>>;
    const Sizes all{{64, 4096}, {8, 32768}, {1 << 14, 1 << 17}, {64, 100}, {1 << 16, 1 << 16}, {16, 1 << 20}};
    for (DType type : {DType::f32, DType::bf16, DType::f16})
      for (int level = 0; level <= kMostRelaxed; ++level) {
        // One device gets all cases, the others only those that differ.
        if (type == DType::f16 && (level > 0 || !first)) continue;
        if (level > 0 && !first && (!older || type == DType::f32)) continue;
        const size_t sizes = type == DType::f16 ? 1 : level > 0 ? 2 : first ? all.size() : 3;
        for (const char* text : kCudaTexts)
          for (const auto& [n, m] : Sizes(all.begin(), all.begin() + static_cast<long>(sizes)))
            add(real_case(text, type, 1, 1).kernel, {n, m}, device, type, level);
        if (level > 0 && !first) continue;
        for (const char* text : kBroadcastTexts)
          add(broadcast_case(text, type, 1, 1, 1).kernel, {4096, 64, 512, 64 * 512, 4096 * 512}, device, type,
              level);
        if (!first && !older) continue;  // TilesFitEveryArchitecture covers the others
        for (const char* text : kTransposingTexts)
          add(transposing_case(text, type, 1, 1, 1).kernel, {8, 1024, 1024, 1 << 20, 8192, 8192}, device,
              type, level);
      }
  }
  return forms;
}

TEST(Nvrtc, EveryScheduleFitsEveryArchitecture) {
  NEEDS_NVRTC();
  const std::vector<Form> forms = every_form();
  std::vector<Result<CudaBinary>> built(forms.size(), invalid("not compiled"));
  std::atomic<size_t> next = 0;
  auto compile = [&] {
    for (size_t i; (i = next++) < forms.size();)
      built[i] = (*nvrtc())->compile(forms[i].text, forms[i].kernel.name, forms[i].architecture,
                                     forms[i].schedule.approximate);
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back(compile);
  for (std::thread& t : threads) t.join();

  std::map<std::string, int> seen;
  std::vector<double> ms;
  for (size_t i = 0; i < forms.size(); ++i) {
    SCOPED_TRACE(forms[i].what);
    ASSERT_TRUE(built[i].ok()) << built[i].status().message();
    EXPECT_EQ(built[i]->spill_bytes, 0) << built[i]->registers << " registers";
    EXPECT_GT(built[i]->registers, 0);
    EXPECT_LE(built[i]->registers * forms[i].schedule.block, 65536);
    EXPECT_LE(built[i]->registers, 128);
    EXPECT_GT(built[i]->code_bytes, 0);
    ms.push_back(built[i]->milliseconds);
    std::istringstream words(forms[i].words);
    for (std::string word; words >> word;) ++seen[word + " sm_" + std::to_string(forms[i].architecture)];
  }
  for (const char* form : {"row sm_80",   "tiled sm_80",   "merge_map sm_80", "outer sm_80",  "global sm_80",
                           "wide sm_80",  "rows sm_80",    "registers sm_80", "row sm_89",    "global sm_89",
                           "outer sm_89", "cluster sm_90", "shared sm_90",    "global sm_90", "wide sm_90",
                           "ahead sm_90", "outer sm_90",   "cluster sm_100",  "outer sm_100", "row sm_120",
                           "outer sm_120"})
    EXPECT_GT(seen[form], 0) << form;
  std::sort(ms.begin(), ms.end());
  std::printf("NVRTC %d.%d: %zu kernels, median %.0f ms, longest %.0f ms\n", (*nvrtc())->version() / 100,
              (*nvrtc())->version() % 100, ms.size(), ms[ms.size() / 2], ms.back());
}

// Every map row and every cast, in every type, with exact and approximate functions. The types take the architectures in turn.
TEST(Nvrtc, EveryRowCompiles) {
  NEEDS_NVRTC();
  int turn = 0;
  for (int architecture : {80, 90, 100, 120})
    for (DType type :
         {DType::f32, DType::f64, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8, DType::b8})
      for (bool narrow : {false, true}) {
        if (narrow && type != DType::f32) continue;
        if (type != DType::f32 && ++turn % 4 != 0) continue;
        const RowsKernel rows = rows_kernel(type, narrow);
        const KernelVariant v = variant_of(rows.kernel, std::vector<int64_t>{1 << 20}, {}, 16, 1 << 20);
        CudaSchedule s = v.schedule;
        s.approximate = narrow;
        const auto built =
            (*nvrtc())->compile(cuda_source(*v.kernel, s), rows.kernel.name, architecture, narrow);
        EXPECT_TRUE(built.ok()) << rows.kernel.name << " sm_" << architecture << ": "
                                << built.status().message();
      }
}

// All loads of a tile come before the first use.
TEST(Nvrtc, TilesFitEveryArchitecture) {
  NEEDS_NVRTC();
  for (int architecture : {80, 90, 100, 120})
    for (const char* text : kTransposingTexts)
      for (DType type : {DType::f32, DType::bf16, DType::i8, DType::f64}) {
        const Kernel kernel = transposing_case(text, type, 1, 1, 1).kernel;
        std::vector<int64_t> sizes{8, 1024, 1024, 1 << 20, 8192, 8192};
        sizes.resize(kernel.sizes.size());
        auto built = build(kernel, sizes, architecture, true);
        ASSERT_TRUE(built.ok()) << built.status().message();
        SCOPED_TRACE(built->what + " " + std::string(name(type)));
        EXPECT_EQ(built->schedule.form, CudaSchedule::Form::tiled);
        EXPECT_EQ(built->binary.spill_bytes, 0);
        EXPECT_LE(built->binary.registers, 128);
        const std::string& ptx = built->binary.ptx;
        EXPECT_EQ(count(ptx, "ld.local"), 0);
        if (kernel.name != "turn") continue;
        const size_t barrier = ptx.find("bar.sync");
        const int steps = built->schedule.along * built->schedule.across / (256 * built->schedule.vector);
        const std::string before = ptx.substr(0, ptx.find("st.shared"));
        EXPECT_LT(ptx.find("st.shared"), barrier) << ptx;
        EXPECT_EQ(count(before, "ld.global"), steps) << ptx;
        EXPECT_EQ(count(ptx, "ld.global"), steps);
      }
}

// Rows of a cluster, in registers and in shared memory. sm_80 has no clusters, so its kernels do not use them.
TEST(Nvrtc, ClustersFitWhatHasThem) {
  NEEDS_NVRTC();
  for (int architecture : {80, 90, 100, 120})
    for (int text : {0, 1})
      for (const auto& [type, m] : std::vector<std::pair<DType, int64_t>>{
               {DType::f32, 65536}, {DType::bf16, 131072}, {DType::bf16, 262144}}) {
        const Kernel kernel = real_case(kCudaTexts[text], type, 1, 1).kernel;
        CudaDevice device;
        device.architecture = architecture;
        const std::vector<int64_t> sizes{64, m};
        const KernelVariant v = variant_of(kernel, sizes, device, 16, 1 << 20);
        const CudaSchedule& s = v.schedule;
        SCOPED_TRACE(kernel.name + " sm_" + std::to_string(architecture) + " " + describe(v));
        auto built =
            (*nvrtc())->compile(cuda_source(*v.kernel, s), kernel.name, architecture, s.approximate, true);
        ASSERT_TRUE(built.ok()) << built.status().message();
        EXPECT_EQ(built->spill_bytes, 0) << built->registers;
        EXPECT_EQ(s.cluster > 1, architecture >= 90);
        EXPECT_EQ(count(built->ptx, "cluster") > 0, architecture >= 90) << built->ptx;
        if (architecture < 90) continue;
        EXPECT_NE(built->ptx.find(".reqnctapercluster " + std::to_string(s.cluster)), std::string::npos)
            << built->ptx;
        EXPECT_GT(count(built->ptx, "ld.shared::cluster.u64"), 0);
        EXPECT_GT(count(built->ptx, "barrier.cluster.arrive.release"), 1);
        // The barrier is aligned: all threads of a warp arrive together.
        const std::string &ptx = built->ptx, arrive = "barrier.cluster.arrive";
        for (size_t at = ptx.find(arrive); at != ptx.npos; at = ptx.find(arrive, at + 1)) {
          const size_t together = ptx.rfind("bar.warp.sync", at);
          EXPECT_EQ(count(ptx.substr(std::min(together, at), at - std::min(together, at)), ";"), 1) << ptx;
        }
        auto old = (*nvrtc())->compile(cuda_source(*v.kernel, s), kernel.name, 80, s.approximate);
        EXPECT_FALSE(old.ok());
      }
}

// Rows that nothing keeps, read by a block or a cluster in vectors or in single elements.
TEST(Nvrtc, OnlineRowsFitEveryArchitecture) {
  NEEDS_NVRTC();
  CudaDevice device;
  for (int architecture : {80, 90, 100, 120})
    for (const char* text : kOnlineTexts)
      for (DType type : {DType::f32, DType::bf16, DType::f64})
        for (int64_t m : {1 << 20, (1 << 20) - 1}) {
          if (type == DType::f64 && std::string_view(text).find("f32") != std::string_view::npos) continue;
          const Kernel kernel = online_case(text, type, 0, 0, {}).kernel;
          const std::vector<int64_t> sizes{m % 2 ? 128 : 4, m};
          device.architecture = architecture;
          const KernelVariant v = variant_of(kernel, sizes, device, 16, 1 << 20);
          const CudaSchedule& s = v.schedule;
          SCOPED_TRACE(kernel.name + " sm_" + std::to_string(architecture) + " " + describe(v));
          ASSERT_EQ(v.passes, std::vector<std::string_view>{"join_online_reductions"});
          EXPECT_EQ(s.cluster, m % 2 || architecture < 90 ? 1 : 8);
          const auto built =
              (*nvrtc())->compile(cuda_source(*v.kernel, s), kernel.name, architecture, s.approximate, true);
          ASSERT_TRUE(built.ok()) << built.status().message();
          EXPECT_EQ(built->spill_bytes, 0) << built->registers;
          EXPECT_LE(built->registers, 64);
          EXPECT_EQ(count(built->ptx, "ld.local"), 0);
          const int vectors = count(built->ptx, "ld.global.v") + count(built->ptx, "ld.global.nc.v");
          EXPECT_EQ(vectors > 0, s.vector > 1) << built->ptx;
        }
}

// Columns: the loads of several rows come before the first addition.
TEST(Nvrtc, RowsAreLoadedAhead) {
  NEEDS_NVRTC();
  for (int architecture : {80, 90, 100, 120})
    for (DType type : {DType::f32, DType::bf16}) {
      const Kernel kernel = real_case(kCudaTexts[4], type, 1, 1).kernel;
      auto built = build(kernel, {1024, 1 << 20}, architecture, true);
      ASSERT_TRUE(built.ok()) << built.status().message();
      SCOPED_TRACE(built->what);
      const std::string& ptx = built->binary.ptx;
      EXPECT_EQ(built->schedule.ahead, 8);
      EXPECT_EQ(built->schedule.vector, type == DType::f32 ? 4 : 8);
      int most = 0;
      for (size_t begin = 0; begin < ptx.size();) {
        const size_t end =
            std::min({ptx.find("\tadd.f32", begin), ptx.find("\tadd.rn.f32", begin), ptx.size()});
        most = std::max(most, count(ptx.substr(begin, end - begin), "ld.global.v4"));
        begin = end + 1;
      }
      EXPECT_EQ(most, 8) << ptx;
      // Eight vectors of four registers, and sums.
      EXPECT_GE(built->binary.registers, 36);
      EXPECT_EQ(built->binary.spill_bytes, 0);
      EXPECT_LE(built->binary.registers, 128);
    }
}

// Rows in registers: the loads of all chunks of a row come before the first computation.
TEST(Nvrtc, ChunksAreLoadedAhead) {
  NEEDS_NVRTC();
  for (int architecture : {80, 90, 100, 120})
    for (DType type : {DType::f32, DType::bf16})
      for (int text : {0, 1, 8}) {
        auto built = build(real_case(kCudaTexts[text], type, 1, 1).kernel, {64, 1 << (text == 8 ? 22 : 14)},
                           architecture, true);
        ASSERT_TRUE(built.ok()) << built.status().message();
        SCOPED_TRACE(built->what);
        const std::string& ptx = built->binary.ptx;
        EXPECT_GT(built->schedule.chunks, 1);
        EXPECT_EQ(count(ptx.substr(0, ptx.find("// begin inline asm")), "ld.global"), built->schedule.chunks)
            << ptx;
        EXPECT_EQ(count(ptx, "ld.local"), 0);
        EXPECT_EQ(built->binary.spill_bytes, 0);
        EXPECT_LE(built->binary.registers, 65536 / 512);
      }
}

// Columns whose rows several threads share: partial sums are combined in shared memory.
TEST(Nvrtc, ThreadsShareColumns) {
  NEEDS_NVRTC();
  for (int architecture : {80, 90, 100, 120})
    for (DType type : {DType::f32, DType::bf16}) {
      auto built = build(real_case(kCudaTexts[4], type, 1, 1).kernel, {16384, 4096}, architecture, true);
      ASSERT_TRUE(built.ok()) << built.status().message();
      SCOPED_TRACE(built->what);
      EXPECT_GT(built->schedule.rows, 1);
      EXPECT_EQ(built->schedule.ahead * built->schedule.vector * size_of(type), 128);
      const std::string& ptx = built->binary.ptx;
      EXPECT_GE(count(ptx, "bar.sync"), 2);
      EXPECT_EQ(count(ptx, "ld.local"), 0);
      EXPECT_EQ(built->binary.spill_bytes, 0);
      EXPECT_LE(built->binary.registers, 128);
    }
}

// Maps: the loads of several vectors of a thread come before the first computation.
TEST(Nvrtc, VectorsAreLoadedAhead) {
  NEEDS_NVRTC();
  for (int architecture : {80, 90, 100, 120})
    for (DType type : {DType::f32, DType::bf16}) {
      auto built = build(real_case(kCudaTexts[7], type, 1, 1).kernel, {1 << 28, 1}, architecture, true);
      ASSERT_TRUE(built.ok()) << built.status().message();
      SCOPED_TRACE(built->what);
      const std::string& ptx = built->binary.ptx;
      EXPECT_EQ(built->schedule.ahead, 2);
      EXPECT_EQ(count(ptx.substr(0, ptx.find("st.global")), "ld.global"), 2) << ptx;
      EXPECT_EQ(count(ptx, "ld.global"), 2) << ptx;
      EXPECT_EQ(count(ptx, "ld.local"), 0);
      EXPECT_EQ(built->binary.spill_bytes, 0);
      EXPECT_LE(built->binary.registers, 80);  // three blocks of 256 threads
    }
}

// The innermost loop of the PTX that contains the last store.
std::string innermost_loop(const std::string& ptx) {
  const size_t store = ptx.rfind("st.global");
  size_t begin = 0, end = 0;
  for (size_t bra = ptx.find("bra", store); bra != ptx.npos; bra = ptx.find("bra", bra + 1)) {
    const size_t name = ptx.find('$', bra);
    const size_t label = ptx.find(ptx.substr(name, ptx.find(';', name) - name) + ":");
    if (label < store && label > begin) begin = label, end = bra;
  }
  return ptx.substr(begin, end - begin);
}

// Maps that read operands repeatedly: operands that are the same in all rows are read in front of the loop, and the loop has no
// division.
TEST(Nvrtc, RowsOfMapsAreReadOnce) {
  NEEDS_NVRTC();
  struct Case {
    int text;
    int64_t n, c, w;
    int loads, vectors;  // per row
  };
  const Case all[] = {{0, 16384, 1, 8192, 1, 1}, {1, 4096, 256, 64, 1, 1},  {2, 512, 64, 4096, 2, 1},
                      {2, 4, 4096, 8192, 2, 1},  {3, 64, 2048, 2048, 1, 0}, {4, 4096, 64, 256, 1, 1}};
  for (int architecture : {80, 90, 100, 120})
    for (DType type : {DType::f32, DType::bf16})
      for (const Case& c : all) {
        const Kernel kernel = broadcast_case(kBroadcastTexts[c.text], type, 1, 1, 1).kernel;
        auto built = build(kernel, {c.n, c.c, c.w, c.c * c.w, c.n * c.w}, architecture, true);
        ASSERT_TRUE(built.ok()) << built.status().message();
        SCOPED_TRACE(built->what);
        EXPECT_NE(built->schedule.outer, 0u);
        const std::string &ptx = built->binary.ptx, loop = innermost_loop(ptx);
        EXPECT_GT(count(ptx, "div."), 0);  // in front of the loop
        EXPECT_EQ(count(loop, "div.") + count(loop, "rem."), 0) << loop;
        EXPECT_EQ(count(loop, "ld.global"), c.loads * built->schedule.ahead) << loop;
        EXPECT_EQ(count(loop, "ld.global.v4"), c.vectors * built->schedule.ahead) << loop;
        EXPECT_GE(count(loop, "st.global.v4"), built->schedule.ahead) << loop;
        EXPECT_EQ(count(ptx, "ld.local"), 0);
        EXPECT_EQ(built->binary.spill_bytes, 0);
        EXPECT_LE(built->binary.registers, 80);  // three blocks of 256 threads
      }
}

TEST(Nvrtc, NeighboursAreReadAsVectors) {
  NEEDS_NVRTC();
  for (int text : {0, 1, 2})
    for (DType type : {DType::f32, DType::bf16}) {
      auto built = build(text, type, 64, 4096, 90, true);
      ASSERT_TRUE(built.ok()) << built.status().message();
      SCOPED_TRACE(built->what);
      EXPECT_GT(count(built->binary.ptx, "ld.global.v4") + count(built->binary.ptx, "ld.global.nc.v4"), 0)
          << built->binary.ptx;
      EXPECT_GT(count(built->binary.ptx, "st.global.v4"), 0) << built->binary.ptx;
      EXPECT_EQ(count(built->binary.ptx, "ld.local"), 0);
    }
  // Results of f32 take exact functions.
  auto exact = build(2, DType::f32, 64, 4096, 90, true);
  ASSERT_TRUE(exact.ok());
  EXPECT_FALSE(exact->schedule.approximate);
}

// Instructions of sm_90 code per element, for threads that compute 16 bytes each. A memory-bound kernel can afford about 29 for 16-bit
// types. The bands are around the numbers of NVRTC 13.0.
TEST(Nvrtc, InstructionsPerElement) {
  NEEDS_NVRTC();
  struct Band {
    int text;
    DType type;
    int64_t m;
    double most;
  };
  const Band bands[] = {{2, DType::bf16, 4096, 48},
                        {2, DType::f32, 4096, 51},
                        {0, DType::bf16, 4096, 27},
                        {1, DType::bf16, 4096, 27}};
  for (const Band& b : bands) {
    auto built = build(b.text, b.type, 64, b.m, 90);
    ASSERT_TRUE(built.ok()) << built.status().message();
    const int64_t elements = int64_t{built->schedule.vector} * std::max(built->schedule.chunks, 1);
    const double each = static_cast<double>(built->binary.code_bytes) / 16 / static_cast<double>(elements);
    std::printf("%s: %.1f instructions per element, %d registers\n", built->what.c_str(), each,
                built->binary.registers);
    EXPECT_LE(each, b.most) << built->what;
  }
}

// A dropout of %y, in the form in which lowering makes it.
#define DROPOUT                                                                                     \
  "%y16 = cast.bf16 %y\n%s = load %seed[0]\n%at = index %i\n%word = random_bits %at, %s\n%eight = " \
  "const.i32 8\n"                                                                                   \
  "%high = shift_right %word, %eight\n%low = const.i32 16777215\n%bits = bit_and %high, %low\n"     \
  "%whole = cast.f32 %bits\n%place = const.f32 5.960464477539063e-08\n%u = mul %whole, %place\n"    \
  "%kept = const.f32 0.9\n%mask = lt %u, %kept\n%m = cast.f32 %mask\n%drawn = mul %y16, %m\n"       \
  "%scale = const.f32 1.1111111\n%o = mul %drawn, %scale"

// Maps of 16-bit tensors with their cost in instructions; a memory-bound map can afford about 22.
constexpr struct {
  const char *name, *body;
  double most;
  const char* out = "bf16";
} kMaps[] = {
    {"copy", "%o = cast.f32 %x", 9},
    {"relu", "%zero = const.f32 0.0\n%o = maximum %x, %zero", 10},
    {"silu", "%s = sigmoid %x\n%o = mul %x, %s", 14},
    {"gelu_tanh",
     "%a = mul %x, %x\n%b = mul %a, %x\n%c = const.f32 0.044715\n%d = mul %b, %c\n%e = add %x, %d\n"
     "%f = const.f32 0.7978845608\n%g = mul %e, %f\n%p = tanh %g\n%half = const.f32 0.5\n%h = mul %x, %half\n"
     "%one = const.f32 1.0\n%q = add %p, %one\n%o = mul %h, %q",
     19},
    {"tanh_alone", "%o = tanh %x", 15},
    {"gelu",
     "%r = const.f32 0.70710678118\n%z = mul %x, %r\n%p = erf %z\n%half = const.f32 0.5\n%h = mul %x, %half\n"
     "%one = const.f32 1.0\n%q = add %p, %one\n%o = mul %h, %q",
     22},
    {"log_alone", "%o = log %x", 22},
    {"quotient", "%d = const.f32 3.0\n%e = add %x, %d\n%o = div %x, %e", 16},
    {"quantize", "%s = const.f32 16.0\n%o = mul %x, %s", 28, "f8e4m3fn"},
    {"gelu_tanh_dropout",
     "%a = mul %x, %x\n%b = mul %a, %x\n%c = const.f32 0.044715\n%d = mul %b, %c\n%e = add %x, %d\n"
     "%f = const.f32 0.7978845608\n%g = mul %e, %f\n%p = tanh %g\n%half = const.f32 0.5\n%h = mul %x, %half\n"
     "%one = const.f32 1.0\n%q = add %p, %one\n%y = mul %h, %q\n" DROPOUT,
     39},
    {"gelu_dropout",
     "%r = const.f32 0.70710678118\n%z = mul %x, %r\n%p = erf %z\n%half = const.f32 0.5\n%h = mul %x, %half\n"
     "%one = const.f32 1.0\n%q = add %p, %one\n%y = mul %h, %q\n" DROPOUT,
     40}};
#undef DROPOUT

TEST(Nvrtc, InstructionsOfMaps) {
  NEEDS_NVRTC();
  for (const auto& m : kMaps) {
    const auto kernel = parse_kernel(
        "kernel @" + std::string(m.name) + "(N; in %in: bf16, in %seed: i64, out %out: " + m.out +
        ") {\npar simd %i in N {\n%x = load %in[%i]\n" + m.body + "\nstore %out[%i], %o\n}\n}");
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    for (const auto& [length, ahead] : {std::pair{1 << 24, 1}, std::pair{1 << 26, 2}}) {
      const std::vector<int64_t> sizes{length};
      const KernelVariant v = variant_of(*kernel, sizes, {});
      const CudaSchedule& s = v.schedule;
      EXPECT_EQ(s.ahead, ahead);
      auto built = (*nvrtc())->compile(cuda_source(*v.kernel, s), kernel->name, 90, s.approximate, true);
      ASSERT_TRUE(built.ok()) << built.status().message();
      const double each = static_cast<double>(built->code_bytes) / 16 / (s.vector * s.ahead);
      EXPECT_EQ(built->ptx.find("div.approx"), std::string::npos) << "which is 0 beyond 2^126";
      std::printf("%s: %.1f instructions per element, %d registers, %d ahead\n", m.name, each,
                  built->registers, ahead);
      EXPECT_LE(each, m.most) << m.name;
      EXPECT_GT(each, m.most / 3) << m.name << " has a band that says nothing";
    }
  }
}

TEST(Nvrtc, SeveralThreadsCompile) {
  NEEDS_NVRTC();
  std::vector<std::thread> threads;
  std::vector<Status> said(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back(
        [&said, t] { said[static_cast<size_t>(t)] = build(t % 3, DType::f32, 4, 64 + t, 90).status(); });
  for (std::thread& t : threads) t.join();
  for (const Status& s : said) EXPECT_TRUE(s.ok()) << s.message();
}

}  // namespace
}  // namespace tenon::jit
