// Programs on a GPU from end to end, without a GPU: kernels run on the host with the mock driver. Covers results, launches and their
// streams, plans of several sizes, unaligned tensors, and the failure of every call of the driver.
#include <sstream>

#include "tests/support/nvidia/cuda_program_help.h"
#include "tests/support/paths.h"
#include "tests/support/sanitized.h"
#include "tests/support/store_help.h"

namespace tenon {
namespace {

using CudaPrograms = CudaProgramTest;

constexpr const char* kNorms = R"(graph @f(%x: f32[N,M], %b: f32[M]) {
  %y = add(%x, %b)
  %g = gelu(%y)
  %n = layer_norm(%g){axes_count=1, eps=1e-5}
  %s = softmax(%n){axis=-1}
  %t = sum(%s){axes=[0]}
  return %s, %t
})";

TEST_F(CudaPrograms, SeveralSizes) {
  const Graph graph = parsed(kNorms);
  auto program = Program::make(graph, options, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (const auto& [n, m] :
       std::vector<std::pair<int64_t, int64_t>>{{3, 64}, {5, 33}, {1, 1}, {0, 8}, {300, 16}, {3, 64}})
    check(**program, graph, {random_tensor(DType::f32, {n, m}, 1), random_tensor(DType::f32, {m}, 2)});
  // All launches are on the caller's stream, and only the copies of inputs waited for the device.
  std::istringstream log(mock().log());
  int launches = 0;
  for (std::string line; std::getline(log, line);) {
    if (!line.starts_with("cuLaunchKernel")) continue;
    ++launches;
    EXPECT_TRUE(line.ends_with("stream 7")) << line;
  }
  EXPECT_GE(launches, 6);
}

// Random numbers depend only on seed and position, not on the thread that draws them: a dropout, its mask, and the bits themselves.
TEST_F(CudaPrograms, RandomNumbers) {
  const Graph graph = parsed(R"(graph @f(%x: f32[N,M], %s: i64[2]) {
    %s1 = slice(%s){axis=0, start=1, end=2}
    %seed = reshape(%s1){shape=[]}
    %u = random_uniform(%seed){shape=[N,M]}
    %p = full{value=0.9, shape=[], dtype=f32}
    %k = lt(%u, %p)
    %f = cast(%k){dtype=f32}
    %d = mul(%x, %f)
    %b = bitcast(%u){dtype=i32}
    %m = full{value=65535, shape=[], dtype=i32}
    %l = bit_and(%b, %m)
    %n = layer_norm(%d){axes_count=1, eps=1e-5}
    return %d, %k, %l, %n
  })");
  auto program = Program::make(graph, options, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (const auto& [n, m] :
       std::vector<std::pair<int64_t, int64_t>>{{3, 64}, {5, 33}, {1, 1}, {0, 8}, {300, 16}}) {
    HostTensor seeds(DType::i64, {2});
    seeds.set(1, {0, n * 0x123456789abcd - m});
    check(**program, graph, {random_tensor(DType::f32, {n, m}, 1), seeds});
  }
}

// Sums that take two kernels: of everything, of the channels of images, of columns over one axis and over two.
TEST_F(CudaPrograms, SumsInParts) {
  const struct {
    const char *type, *axes;
    std::vector<std::vector<int64_t>> shapes;
  } sums[] = {{"[N,M]", "[0,1]", {{100, 300}, {1, 8193}, {3, 5}, {0, 4}}},
              {"[N,6,H,W]", "[0,2,3]", {{9, 6, 5, 7}, {1, 6, 40, 33}, {4, 6, 1, 1}, {0, 6, 2, 2}}},
              {"[N,M]", "[0]", {{1500, 33}, {513, 64}, {1, 7}, {0, 8}}},
              {"[N,3,M,16]", "[0,2]", {{5, 3, 700, 16}, {1, 3, 2, 16}}}};
  for (const auto& s : sums) {
    const Graph graph = parsed((std::string("graph @f(%x: f32") + s.type +
                                ") {\n %q = mul(%x, %x)\n %s = sum(%q){axes=" + s.axes +
                                "}\n %t = sum(%x){axes=" + s.axes + "}\n %y = sqrt(%s)\n return %y, %t\n}"));
    auto program = Program::make(graph, options, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    EXPECT_NE((*program)->explain(false).find("_parts_0"), std::string::npos) << (*program)->explain(false);
    for (const std::vector<int64_t>& shape : s.shapes)
      check(**program, graph, {random_tensor(DType::f32, shape, 1)});
  }
}

// The backward pass of a norm: one kernel reads the inputs, a second one adds the partial sums of its blocks. Results of 16 bits are
// compared with a graph of 32 bits, since the kernel rounds no intermediate values; the evaluator would round each, and the errors
// of many rows add up.
TEST_F(CudaPrograms, NormBackward) {
  constexpr const char* kBackward = R"(graph @f(%x: f32[N,160], %d: f32[N,160], %w: f32[160], %r: f32[N,1]) {
    %h = mul(%x, %r)
    %g = mul(%d, %w)
    %p = mul(%g, %h)
    %s = mean(%p){axes=[1], keepdims=true}
    %q = mul(%h, %s)
    %o = sub(%g, %q)
    %y = mul(%o, %r)
    %e = mul(%d, %h)
    %v = sum(%e){axes=[0]}
    %b = sum(%d){axes=[0]}
    return %y, %v, %b
  })";
  const Graph wide = parsed(kBackward);
  for (DType type : {DType::f32, DType::bf16, DType::f16}) {
    std::string text = kBackward;
    for (size_t at = 0; (at = text.find("f32", at)) != text.npos; ++at) text.replace(at, 3, name(type));
    auto program = Program::make(parsed(text.c_str()), options, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    const std::string kernels = (*program)->explain(false);
    EXPECT_NE(kernels.find("_blocks_0"), std::string::npos) << kernels;
    EXPECT_NE(kernels.find("_sums_1"), std::string::npos) << kernels;
    EXPECT_EQ((*program)->stats().kernels, 2) << kernels;
    for (int64_t n : {1, 32, 33, 100, 0})
      check(**program, wide,
            {random_tensor(type, {n, 160}, 1), random_tensor(type, {n, 160}, 2),
             random_tensor(type, {160}, 3), random_tensor(type, {n, 1}, 4)});
  }
}

// A softmax of few long rows in parts: with -inf in front, of -inf only, and with inf.
TEST_F(CudaPrograms, FewLongRows) {
  constexpr int64_t kRow = (1 << 18) + 1;
  HostTensor x = random_tensor(DType::f32, {3, kRow}, 1);
  for (int64_t j = 0; j < kRow; ++j) {
    if (j < kRow / 2) x.set_number(j, -INFINITY);
    x.set_number(kRow + j, -INFINITY);
  }
  x.set_number(3 * kRow - 1, INFINITY);
  for (const char* text : sampled<const char*>({"%y = div(%e, %s)", "%l = log(%s)\n %y = add(%l, %m)"})) {
    const Graph graph =
        parsed("graph @f(%x: f32[3," + std::to_string(kRow) +
               "]) {\n %m = max(%x){axes=[1], keepdims=true}\n %d = sub(%x, %m)\n %e = exp(%d)\n %s = "
               "sum(%e){axes=[1], keepdims=true}\n " +
               text + "\n return %y\n}");
    auto program = Program::make(graph, options, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    const std::string kernels = (*program)->explain(false);
    EXPECT_NE(kernels.find("exp add simd %j1 in %p"), std::string::npos) << kernels;
    EXPECT_EQ((*program)->stats().kernels, 2) << kernels;
    check(**program, graph, {x});
  }
}

// Weights of 16 bits with sums of 32: the second kernel rounds its results, with or without a reshape in between.
TEST_F(CudaPrograms, NormBackwardOfNarrowWeights) {
  constexpr const char* kBackward = R"(graph @f(%x: bf16[N,160], %d: bf16[N,160], %r: f32[N,1]) {
    %x1 = cast(%x){dtype=f32}
    %d1 = cast(%d){dtype=f32}
    %h = mul(%x1, %r)
    %e = mul(%d1, %h)
    %s = mean(%e){axes=[1], keepdims=true}
    %q = mul(%h, %s)
    %o = sub(%d1, %q)
    %y = mul(%o, %r)
    %v = sum(%e){axes=[0]}
    %b = sum(%d1){axes=[0], keepdims=true}
    %b0 = reshape(%b){shape=[10,16]}
    %y1 = cast(%y){dtype=bf16}
    %v1 = cast(%v){dtype=DTYPE}
    %b1 = cast(%b0){dtype=DTYPE}
    %z = neg(%v1)
    return %y1, %v1, %b1MORE
  })";
  // More outputs than the casts, which need kernels of their own.
  const struct {
    DType type;
    const char* more;
  } all[] = {{DType::bf16, ""}, {DType::f16, ""}, {DType::bf16, ", %v"}, {DType::bf16, ", %z"}};
  for (const auto& [type, more] : all) {
    std::string text = kBackward;
    text.replace(text.find("MORE"), 4, more);
    for (size_t at; (at = text.find("DTYPE")) != text.npos;) text.replace(at, 5, name(type));
    const Graph graph = parsed(text);
    auto program = Program::make(graph, options, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    const std::string kernels = (*program)->explain(false);
    EXPECT_NE(kernels.find("_sums_1"), std::string::npos) << kernels;
    EXPECT_EQ((*program)->stats().kernels == 2, !*more) << kernels;
    for (int64_t n : {1, 33, 100, 0})
      check(**program, graph,
            {random_tensor(DType::bf16, {n, 160}, 1), random_tensor(DType::bf16, {n, 160}, 2),
             random_tensor(DType::f32, {n, 1}, 4)});
  }
}

TEST_F(CudaPrograms, SixteenBitTypes) {
  for (const char* type : {"bf16", "f16"}) {
    std::string text = kNorms;
    for (size_t at; (at = text.find("f32")) != text.npos;) text.replace(at, 3, type);
    const Graph graph = parsed(text);
    auto program = Program::make(graph, options, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    const DType t = type[0] == 'b' ? DType::bf16 : DType::f16;
    check(**program, graph, {random_tensor(t, {4, 72}, 1), random_tensor(t, {72}, 2)});
  }
}

TEST_F(CudaPrograms, UnalignedTensors) {
  const Graph graph = parsed("graph @f(%x: f32[N]) {\n %y = exp(%x)\n return %y\n}");
  auto program = Program::make(graph, options, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  for (int64_t shift : {0, 4, 8, 0}) check(**program, graph, {random_tensor(DType::f32, {1024}, 1)}, shift);
}

// Without permission for more, a launch may use 48 KiB of shared memory minus the kernel's static part, which folds use here.
TEST_F(CudaPrograms, RowsOfNearlyAllSharedMemory) {
  const Graph graph = parsed("graph @f(%x: f32[N,M]) {\n %y = softmax(%x){axis=-1}\n return %y\n}");
  auto program = make(graph);
  for (int64_t m : {12161, 12287, 12289}) {
    check(*program, graph, {random_tensor(DType::f32, {2, m}, 1)});
    const std::string wish = " shared " + std::to_string((4 * m + 15) / 16 * 16) + " ";
    EXPECT_NE(std::string(mock().log()).find(wish), std::string::npos) << wish;
  }
}

TEST_F(CudaPrograms, Constants) {
  const Graph graph = parsed(
      "graph @f(%x: f32[N,3]) {\n %c = constant(){dtype=f32, shape=[3], data=0x0000c03f000000c000008040}\n "
      "%y = "
      "mul(%x, %c)\n return %y\n}");
  auto program = Program::make(graph, options, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  check(**program, graph, {random_tensor(DType::f32, {7, 3}, 1)});
}

// An error of the device becomes a status with the driver's text. Nothing leaks, and the next run is right.
TEST_F(CudaPrograms, EveryCallFailsInTurn) {
  const Graph graph = parsed(kNorms);
  auto program = Program::make(graph, options, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto inputs = [] {
    return std::vector<HostTensor>{random_tensor(DType::f32, {3, 40}, 1), random_tensor(DType::f32, {40}, 2)};
  };
  check(**program, graph, inputs());
  const std::string before = mock().leaks();
  for (const char* call :
       {"cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuMemAllocFromPoolAsync", "cuLaunchKernel"})
    for (int nth : {1, 2, 3}) {
      SCOPED_TRACE(std::string(call) + " " + std::to_string(nth));
      std::vector<HostTensor> in = inputs();
      auto expected = evaluate(graph, in);
      {
        OnDevice x(memory(), in[0]), b(memory(), in[1]), s(memory(), (*expected)[0]),
            t(memory(), (*expected)[1]);
        mock().fail(call, nth, 2);
        const Status status = (*program)->run(std::vector<Tensor>{x.tensor(), b.tensor()},
                                              std::vector<Tensor>{s.tensor(), t.tensor()}, kStream);
        if (!status.ok()) {
          EXPECT_NE(status.message().find("CUDA_ERROR_OUT_OF_MEMORY (2)"), std::string::npos)
              << status.message();
        }
        EXPECT_TRUE(!status.ok() || nth > 1 || std::string(call) != "cuLaunchKernel");
        mock().fail(call, 0, 0);
      }
      EXPECT_EQ(std::string(mock().leaks()), before);
    }
  check(**program, graph, inputs());
}

int capturing() {
  int status = -1;
  const Status asked =
      (*cuda::Driver::get())->cuStreamIsCapturing(static_cast<cuda::CuStream>(kStream), &status);
  return asked.ok() ? status : -1;
}

// The caller may capture sizes that have run before; others are refused. Neither invalidates the capture.
TEST_F(CudaPrograms, CapturesGoOn) {
  auto program = make(parsed("graph @f(%x: f32[N]) {\n %y = exp(%x)\n return %y\n}"));
  HostTensor zeros(DType::f32, {64});
  OnDevice x(memory(), zeros), y(memory(), zeros);
  auto run = [&](int64_t n, void* stream) {
    Tensor in = x.tensor(), out = y.tensor();
    in.shape = out.shape = {&n, 1};
    return program->run(std::vector<Tensor>{in}, std::vector<Tensor>{out}, stream);
  };
  ASSERT_TRUE(run(64, kStream).ok());
  mock().capture(kStream, 1);
  EXPECT_TRUE(run(64, kStream).ok());
  EXPECT_NE(std::string(mock().log()).find("stream 7 captured\n"), std::string::npos);
  EXPECT_EQ(capturing(), 1);
  EXPECT_EQ(
      run(8, kStream).message(),
      "the stream captures, and there is no plan for these sizes yet: run once with them before the capture");
  EXPECT_EQ(capturing(), 1);
  // The default stream waits for the one that captures.
  EXPECT_NE(run(64, nullptr).message().find("STREAM_CAPTURE_IMPLICIT (906)"), std::string::npos);
  EXPECT_EQ(capturing(), 1);
  mock().capture(kStream, 0);
  EXPECT_TRUE(run(8, kStream).ok());
}

TEST_F(CudaPrograms, CompilerNewerThanTheDriver) {
  const auto nvrtc = jit::Nvrtc::get();
  ASSERT_TRUE(nvrtc.ok()) << nvrtc.status().message();
  auto check = [&](const char* version) {
    mock().set((std::string("version=") + version).c_str());
    const auto driver = cuda::Driver::open({"the CUDA driver", {kCudaMock}, "", {}, ""});
    TENON_CHECK(driver.ok(), driver.status().message());
    return cuda::check_compiler(**driver, **nvrtc, 90);
  };
  EXPECT_EQ(check("12080").code(), Code::environment);
  EXPECT_EQ(check("12080").message(),
            "NVRTC is of CUDA 13, whose code the driver of CUDA 12.8 does not load");
  EXPECT_TRUE(check("13010").ok());
  EXPECT_TRUE(check("13000").ok());
}

// The pool keeps unused memory. If an allocation fails, it releases unused memory and tries again.
TEST_F(CudaPrograms, Pool) {
  auto runtime = cuda::runtime_of(0);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  DeviceMemory& pool = (*runtime)->pool();
  auto block = pool.take(100, kStream);
  ASSERT_TRUE(block.ok()) << block.status().message();
  pool.give(*block, 100, kStream);
  EXPECT_LE(mock().calls("cuMemPoolCreate"), 1);
  const int trimmed = mock().calls("cuMemPoolTrimTo");
  mock().fail("cuMemAllocFromPoolAsync", 1, cuda::kCuOutOfMemory);
  block = pool.take(100, kStream);
  EXPECT_TRUE(block.ok()) << block.status().message();
  EXPECT_EQ(mock().calls("cuMemPoolTrimTo"), trimmed + 1);
  pool.give(*block, 100, kStream);
  mock().fail("cuMemAllocFromPoolAsync", 1, cuda::kCuOutOfMemory);
  mock().fail("cuMemAllocFromPoolAsync", 2, cuda::kCuOutOfMemory);
  block = pool.take(100, kStream);
  EXPECT_EQ(block.status().code(), Code::environment);
  EXPECT_EQ(block.status().message(),
            "100 bytes of Mock 0: cuMemAllocFromPoolAsync: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
  mock().fail("cuMemAllocFromPoolAsync", 0, 0);
}

// A kernel whose row does not fit into registers runs in a form of a higher relax level, which is remembered.
TEST_F(CudaPrograms, WhatSpillsRunsInAnEasierForm) {
  const Graph graph =
      parsed("graph @f(%x: f32[N,M]) {\n %y = softmax(%x){axis=-1}\n %z = mul(%y, %y)\n return %z\n}");
  auto program = Program::make(graph, options, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  setenv("TENON_NVRTC_MOCK_LOG",
         "ptxas info : Used 255 registers\n 16 bytes spill stores, 16 bytes spill loads", 1);
  check(**program, graph, {random_tensor(DType::f32, {4, 192}, 1)});
  unsetenv("TENON_NVRTC_MOCK_LOG");
  EXPECT_EQ((*program)->stats().kernels_compiled,
            3);  // in registers, in shared memory, one element at a time
  check(**program, graph, {random_tensor(DType::f32, {7, 192}, 1)});
  EXPECT_EQ((*program)->stats().kernels_compiled, 3);
}

// A kernel that spills in this form too runs as two kernels, from then on in all plans. Temporaries hold the values between them.
TEST_F(CudaPrograms, WhatSpillsStillIsCutInTwo) {
  constexpr const char* kRows = R"(graph @f(%x: T[N,M], %b: T[M]) {
    %y = add(%x, %b)
    %s = softmax(%y){axis=-1}
    %t = tanh(%s)
    %u = exp(%t)
    %g = gelu(%u)
    %a = add(%g, %b)
    %v = sin(%a)
    %w = cos(%v)
    return %w
  })";
  constexpr const char* kMap = R"(graph @f(%x: T[N,M], %b: T[M]) {
    %y = add(%x, %b)
    %t = tanh(%y)
    %u = exp(%t)
    %g = gelu(%u)
    %a = add(%g, %y)
    %h = gelu(%a)
    %v = sin(%h)
    %c = cos(%v)
    %w = mul(%c, %x)
    return %w
  })";
  for (const char* text : {kRows, kMap})
    for (DType type : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(typed(text, std::string(name(type))));
      const Graph graph = parsed(typed(text, std::string(name(type))));
      cuda::forget_all();
      auto program = make(graph);
      const std::string kernels = program->explain(false);
      const size_t begin = kernels.find("kernel @") + 8;
      const std::string kernel = kernels.substr(begin, kernels.find('(', begin) - begin);
      auto run = [&](int64_t n, int64_t shift) {
        check(*program, parsed(typed(text, "f32")),
              {random_tensor(type, {n, 72}, 1), random_tensor(type, {72}, 2)}, shift);
      };
      const int launches = mock().calls("cuLaunchKernel");
      setenv("TENON_NVRTC_MOCK_LOG",
             "ptxas info : Used 255 registers\n 8 bytes spill stores, 8 bytes spill loads", 1);
      setenv("TENON_NVRTC_MOCK_LOG_OF", (" " + kernel + "(").c_str(), 1);
      run(4, 0);
      const int64_t compiled = program->stats().kernels_compiled;
      unsetenv("TENON_NVRTC_MOCK_LOG");
      unsetenv("TENON_NVRTC_MOCK_LOG_OF");
      EXPECT_GE(compiled, 3);
      EXPECT_EQ(mock().calls("cuLaunchKernel"), launches + 2);
      EXPECT_NE(std::string(mock().log()).find(kernel + "_1 "), std::string::npos);
      run(7, 0);
      EXPECT_EQ(program->stats().kernels_compiled, compiled);
      EXPECT_EQ(mock().calls("cuLaunchKernel"), launches + 4);
      run(0, 0);
      run(5, 2 * size_of(type));  // uses the form for any alignment
      EXPECT_EQ(mock().calls("cuLaunchKernel"), launches + 6);
    }
}

// A process finds code that an earlier one compiled on disk, unless it is damaged.
TEST_F(CudaPrograms, CodeIsKeptOnDisk) {
  ScratchDirectory scratch;
  Disk disk(at(scratch / "c"));
  Store& store = disk.store;
  const Graph graph =
      parsed("graph @f(%x: f32[N,M]) {\n %y = softmax(%x){axis=-1}\n %z = exp(%y)\n return %z\n}");
  auto compiled = [&] {
    cuda::forget_all();  // like a new process
    auto program = Program::make(graph, options, {});
    TENON_CHECK(program.ok(), program.status().message());
    check(**program, graph, {random_tensor(DType::f32, {4, 64}, 1)});
    return (*program)->stats().kernels_compiled;
  };
  EXPECT_EQ(compiled(), 1);
  EXPECT_EQ(compiled(), 0);
  EXPECT_EQ(store.stats().hits, 1);
  auto items = store.list();
  ASSERT_TRUE(items.ok());
  ASSERT_EQ(items->size(), 1u);
  const std::string path = scratch / "c/" + items->front().file, good = file_bytes(path);
  std::string bytes = good;
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(path, bytes);
  EXPECT_EQ(compiled(), 1);
  EXPECT_EQ(file_bytes(path).size(), good.size());
  // Entries with right checksums whose content is not ours.
  auto entry = store.read(items->front().file);
  ASSERT_TRUE(entry.ok());
  for (const char* object : {"", "registers", "registers 3 spills 0", "registers 3 spills 0\n"}) {
    entry->object = object;
    ASSERT_TRUE(store.save(*entry).ok());
    EXPECT_EQ(compiled(), 1) << object;
  }
  cuda::forget_all();
}

// Programs and plans are made and destroyed while another stream captures, without an effect on that capture.
TEST_F(CudaPrograms, MadeWhileAnotherStreamCaptures) {
  const Graph graph = parsed(R"(graph @f(%x: f32[N,3]) {
    %c = constant(){dtype=f32, shape=[3], data=0x0000c03f000000c000008040}
    %y = mul(%x, %c)
    %s = sum(%y){axes=[0]}
    return %s
  })");
  cuda::forget_all();  // kernels are loaded again
  HostTensor ones(DType::f32, {5, 3}), blank(DType::f32, {3});
  for (int64_t i = 0; i < 15; ++i) ones.set(i, {1, 1});
  OnDevice x(memory(), ones), s(memory(), blank);
  mock().capture(kStream, 1);
  {
    const auto program = make(graph);
    void* const other = reinterpret_cast<void*>(8);
    const Status ran = program->run(std::vector<Tensor>{x.tensor()}, std::vector<Tensor>{s.tensor()}, other);
    EXPECT_TRUE(ran.ok()) << ran.message();
    EXPECT_EQ(s.read().number(1), -10.0);
    mock().fail("cuMemAllocFromPoolAsync", 1, cuda::kCuOutOfMemory);
    auto block = memory().take(100, other);
    EXPECT_TRUE(block.ok()) << block.status().message();
    memory().give(*block, 100, other);
  }
  EXPECT_EQ(capturing(), 1);
  mock().capture(kStream, 0);
}

TEST_F(CudaPrograms, NothingIsLeftWhenAProgramGoes) {
  const Graph graph = parsed(kNorms);
  const std::string before = [&] {
    (void)memory();
    return std::string(mock().leaks());
  }();
  {
    auto program = Program::make(graph, options, {});
    ASSERT_TRUE(program.ok());
    check(**program, graph, {random_tensor(DType::f32, {3, 64}, 1), random_tensor(DType::f32, {64}, 2)});
  }
  cuda::forget_all();
  EXPECT_EQ(std::string(mock().leaks()), "");
}

TEST_F(CudaPrograms, NoSuchDevice) {
  options.device.index = 3;
  auto program = Program::make(parsed(kNorms), options, {});
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.status().message().find("there is no GPU 3"), std::string::npos)
      << program.status().message();
}

}  // namespace
}  // namespace tenon
