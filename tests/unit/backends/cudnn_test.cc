// Programs with convolutions, without a GPU. cuDNN is its mock (cudnn_mock.cc), which checks its arguments and computes in double;
// kernels run on the mock driver. Covers results, layouts, plans of several sizes, engines, unaligned tensors, threads, the failure
// of every call of the library, a missing library, and poolings, which loops run.
#include <limits>

#include "tests/support/nvidia/cudnn_help.h"
#include "tests/support/paths.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kFunctions[] = {
#define X(name, ...) #name,
    TENON_CUDNN_FUNCTIONS(X)
#undef X
};

const std::string kBlock = R"(graph @f(%x: T[N,4,H,7], %w: T[6,4,3,3], %b: T[6], %r: T[N,6,H,7]) {
  %c = convolution(%x, %w, %b){strides=[1,1], padding=[1,1], padding_high=[1,1], dilations=[1,1]}
  %s = add(%c, %r)
  %y = relu(%s)
  return %y
})";

std::string one(const std::string& inputs, const std::string& attributes,
                const std::string& operands = "%x, %w") {
  return "graph @f(" + inputs + ") {\n %y = convolution(" + operands + "){" + attributes + "}\n return %y\n}";
}
const std::string k2d = "strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1]";

TEST_F(Cudnn, LoopsAround) {
  for (const char* type : {"f32", "bf16", "f16"}) {
    SCOPED_TRACE(type);
    dnn().reset();
    const Graph graph = parsed(typed(kBlock, type));
    const auto program = make(graph);
    EXPECT_THAT(program->explain(false), HasSubstr("(cudnn): convolution\n"));
    check(*program, graph, {2, 5});
    EXPECT_THAT(program->explain(false),
                HasSubstr("cuDNN convolution 2x4x5x7 by 6x4x3x3 " + std::string(type) + ", pad 1x1\n"));
    EXPECT_THAT(lines(), ElementsAre("forward 2x4x5x7 by 6x4x3x3 " + std::string(type) +
                                     " nhwc pad 1x1, engine A0 aligned 16 stream 7"));
  }
}

TEST_F(Cudnn, DoublePrecision) {
  check(typed(kBlock, "f64"), {2, 5});
  EXPECT_THAT(lines()[0], HasSubstr(" f64 nhwc"));
}

TEST_F(Cudnn, SeveralSizes) {
  const Graph graph = parsed(typed(kBlock, "f32"));
  const auto program = make(graph);
  const std::vector<std::vector<int64_t>> sizes{{2, 5}, {1, 5}, {2, 1}, {0, 5}, {1, 1}, {3, 13}, {2, 5}};
  for (const auto& symbols : sizes) {
    SCOPED_TRACE(testing::PrintToString(symbols));
    check(*program, graph, symbols);
  }
  EXPECT_EQ(dnn().calls("cudnnBackendExecute"), 6);  // empty results cause no call
}

TEST_F(Cudnn, Attributes) {
  for (const char* type : {"f32", "bf16"})
    for (const char* layout : {"channels_first", "channels_last"})
      for (const char* attributes :
           {"strides=[2,1], padding=[1,0], padding_high=[0,2], dilations=[1,2], groups=2",
            "strides=[1,3], padding=[0,0], padding_high=[0,0], dilations=[2,1], groups=2",
            "strides=[1,1], padding=[2,2], padding_high=[2,2], dilations=[1,1], groups=2"}) {
        SCOPED_TRACE(testing::Message() << type << " " << layout << " " << attributes);
        const bool last = std::string(layout) == "channels_last";
        check(typed(one(last ? "%x: T[2,9,7,4], %w: T[6,2,3,3], %b: T[6]"
                             : "%x: T[2,4,9,7], %w: T[6,2,3,3], %b: T[6]",
                        std::string(attributes) + ", layout=\"" + layout + "\"", "%x, %w, %b"),
                    type));
      }
  // One channel per group with several filters each.
  check(one("%x: f32[2,4,9,7], %w: f32[8,1,3,3]", k2d + ", groups=4"));
  EXPECT_EQ(dnn().calls("cudnnBackendExecute"), 13);
}

TEST_F(Cudnn, OneAndThreeAxes) {
  check(one("%x: f32[2,4,9], %w: f32[6,4,3], %b: f32[6]",
            "strides=[2], padding=[1], padding_high=[0], dilations=[2]", "%x, %w, %b"));
  check(one("%x: bf16[2,4,5,6,7], %w: bf16[6,4,2,1,3]",
            "strides=[1,2,1], padding=[0,1,1], padding_high=[1,1,0], dilations=[1,1,2]"));
  EXPECT_THAT(
      lines(),
      ElementsAre(HasSubstr("forward 2x4x1x9 by 6x4x1x3 f32 nhwc stride 1x2 dilation 1x2 pad 0x1 to 0x0"),
                  HasSubstr("forward 2x4x5x6x7 by 6x4x2x1x3 bf16 nhwc stride 1x2x1 dilation 1x1x2")));
}

TEST_F(Cudnn, Transposed) {
  for (const char* attributes :
       {"strides=[2,2], padding=[1,1], padding_high=[1,1], dilations=[1,1], output_padding=[1,0]",
        "strides=[1,1], padding=[1,1], padding_high=[1,1], dilations=[2,2], output_padding=[1,0]",
        "strides=[3,1], padding=[0,2], padding_high=[1,0], dilations=[1,2], groups=2"}) {
    SCOPED_TRACE(attributes);
    check(one("%x: f32[2,6,4,5], %w: f32[6,2,3,3]", std::string(attributes) + ", transposed=true"));
  }
  check(one("%x: f16[2,6,5], %w: f16[6,2,3]",
            "strides=[2], padding=[1], padding_high=[1], dilations=[1], transposed=true"));
  for (const std::string& line : lines()) EXPECT_THAT(line, HasSubstr("backward "));
  EXPECT_EQ(dnn().calls("cudnnBackendExecute"), 4);
}

// An empty sum is zero, and the bias is added to it.
TEST_F(Cudnn, NothingToSum) {
  check(one("%x: f32[2,0,4,5], %w: f32[6,0,3,3], %b: f32[6]", k2d, "%x, %w, %b"));
  const Graph graph =
      parsed(one("%x: bf16[N,4,H,5], %w: bf16[6,4,2,3], %b: bf16[6]",
                 "strides=[1,1], padding=[2,0], padding_high=[1,0], dilations=[1,1]", "%x, %w, %b"));
  const auto program = make(graph);
  for (int64_t height : {0, 3, 0}) check(*program, graph, {2, height});
  EXPECT_EQ(dnn().calls("cudnnBackendExecute"), 1);
}

// Weights in the library's order are read in place, and a kernel copies others.
TEST_F(Cudnn, WeightsInTheLibrarysOrder) {
  const std::string text = R"(graph @f(%x: f32[2,9,7,4], %w: f32[6,4,3,3] strides=[36,1,12,4]) {
  %y = convolution(%x, %w){strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1], layout="channels_last"}
  return %y
})";
  const Graph graph = parsed(text);
  EXPECT_EQ(make(graph)->stats().steps, 1);
  std::string other = text;
  other.erase(other.find(" strides=[36"), 20);
  const Graph dense = parsed(other);
  const auto program = make(dense);
  EXPECT_EQ(program->stats().steps, 2);
  check(*program, dense, {});
}

TEST_F(Cudnn, ViewsAreReadOrStored) {
  for (const char* view :
       {"slice(%x){axis=0, start=1, end=3}", "slice(%x){axis=2, end=9, step=2}", "flip(%x){axes=[3]}"}) {
    SCOPED_TRACE(view);
    check("graph @f(%x: f32[4,4,9,7], %w: f32[6,4,3,3]) {\n %v = " + std::string(view) +
          "\n %y = convolution(%v, %w){" + k2d + "}\n return %y\n}");
  }
  // Operands that loops have computed.
  check(
      "graph @f(%x: f32[2,4,9,7], %w: f32[6,4,3,3]) {\n %e = tanh(%x)\n %v = sin(%w)\n %y = convolution(%e, "
      "%v){" +
      k2d + "}\n return %y\n}");
  // An operand of one number, and one tensor as two operands.
  check(
      "graph @f(%x: f32[3,3,3,3]) {\n %o = full(){value=1.5, dtype=f32, shape=[2,3,5,5]}\n %a = "
      "convolution(%o, %x){" +
      k2d + "}\n %b = convolution(%x, %x){" + k2d + "}\n return %a, %b\n}");
}

TEST_F(Cudnn, SeveralConvolutions) {
  const std::string text =
      R"(graph @f(%x: bf16[2,3,8,8], %v: bf16[8,3,3,3], %w: bf16[8,8,3,3], %b: bf16[8], %p: bf16[8,3,1,1]) {
  %c = convolution(%x, %v, %b){strides=[2,2], padding=[1,1], padding_high=[1,1], dilations=[1,1]}
  %r = relu(%c)
  %d = convolution(%r, %w, %b){strides=[1,1], padding=[1,1], padding_high=[1,1], dilations=[1,1]}
  %e = convolution(%x, %p){strides=[2,2], padding=[0,0], padding_high=[0,0], dilations=[1,1]}
  %s = add(%d, %e)
  %y = relu(%s)
  %m = mean(%y){axes=[2,3]}
  return %m
})";
  check(text);
  EXPECT_EQ(dnn().calls("cudnnBackendExecute"), 3);
}

TEST_F(Cudnn, AlignmentOfPointers) {
  const Graph graph = parsed(one("%x: bf16[2,9,7,4], %w: bf16[6,4,1,1]", k2d + ", layout=\"channels_last\""));
  const auto program = make(graph);
  for (int64_t shift : {0, 8, 4, 2, 32, 2, 4, 8}) check(*program, graph, {}, shift);
  EXPECT_THAT(words_behind("aligned"), ElementsAre("16", "8", "4", "2", "16", "2", "4", "8"));
}

TEST_F(Cudnn, ChoicesAreShared) {
  const Graph graph = parsed(typed(kBlock, "f32"));
  const auto first = make(graph), second = make(graph);
  check(*first, graph, {2, 5});
  const int finalized = dnn().calls("cudnnBackendFinalize");
  check(*second, graph, {2, 5});
  EXPECT_EQ(dnn().calls("cudnnBackendFinalize"), finalized + 1);  // the variant pack of a run
  EXPECT_EQ(dnn().calls("cudnnCreate"), 1);
}

TEST_F(Cudnn, Workspace) {
  const Graph graph = parsed(typed(kBlock, "f32"));
  for (int bytes : {0, 1, 4096, 3 << 20}) {
    dnn().engines(("workspace=" + std::to_string(bytes) + "|").c_str());
    library::kept_algorithms<cudnn::Algorithm>().clear();
    const auto program = make(graph);
    check(*program, graph, {2, 5});
    EXPECT_GE(program->stats().workspace_bytes, bytes);
    check(*program, graph, {2, 5}, 4);
  }
}

// The first engine is taken that keeps the precision of the dtype, is deterministic, fits into the workspace and needs no compile;
// engines that compile come last.
TEST_F(Cudnn, Engines) {
  const auto first = [&](const std::string& list, const std::string& type, const std::string& text = kBlock) {
    dnn().reset();
    dnn().engines(list.c_str());
    library::kept_algorithms<cudnn::Algorithm>().clear();
    check(typed(text, type), {2, 5});
    return words_behind("engine").at(0);
  };
  for (const char* type : {"f32", "bf16", "f64"}) {
    SCOPED_TRACE(type);
    EXPECT_EQ(first("random;down;reduced;workspace=100|", type), "A3");
    EXPECT_EQ(first("fail=3000;fail=4000;workspace=1073741824;compiles; |", type), "A4");
    EXPECT_EQ(first("compiles|workspace=64", type), "F0");
    EXPECT_EQ(first("compiles fail=4000;compiles workspace=64|compiles", type), "A1");
    EXPECT_EQ(first("|random;compiles", type), "F1");
  }
  // Engines with TF32 are not taken for f32, unless the graph allows it.
  EXPECT_EQ(first("tensorcore;workspace=8|", "f32"), "A1");
  EXPECT_EQ(first("tensorcore;workspace=8|", "bf16"), "A0");
  EXPECT_EQ(first("tensorcore;workspace=8|", "f64"), "A0");
  std::string tf32 = kBlock;
  tf32.replace(tf32.find("dilations=[1,1]"), 15, "dilations=[1,1], tf32=true");
  EXPECT_EQ(first("tensorcore;workspace=8|", "f32", tf32), "A0");
  EXPECT_EQ(first("workspace=8;tensorcore|", "f32", tf32), "A0");
  EXPECT_EQ(first("tensorcore down;tensorcore reduced;random tensorcore;tensorcore|", "f32", tf32), "A3");
}

TEST_F(Cudnn, NoEngine) {
  const Graph graph = parsed(typed(kBlock, "f32"));
  std::vector<HostTensor> got{HostTensor(DType::f32, {2, 6, 5, 7})};
  const auto why = [&](const char* list, Code code) {
    dnn().engines(list);
    const Status status = run(*make(graph), inputs_of(graph, {2, 5}), got);
    EXPECT_EQ(status.code(), code);
    return status.message();
  };
  const std::string begin =
      "cuDNN has no engine for 2x4x5x7 by 6x4x3x3 f32, pad 1x1 of tensors aligned to 16 bytes";
  const std::string plan = ": cudnnBackendFinalize of its plan: CUDNN_STATUS_";
  EXPECT_EQ(why("|", Code::unsupported), begin);
  EXPECT_EQ(why("tensorcore|random", Code::unsupported), begin);
  EXPECT_EQ(why("fail=3000|fail=3010", Code::unsupported), begin + plan + "NOT_SUPPORTED (3000)");
  EXPECT_EQ(why("workspace=1073741824|", Code::unsupported),
            begin + ": an engine wants 1073741824 bytes of workspace, and 536870912 are there");
  // An error that may pass takes precedence over unsupported ones.
  EXPECT_EQ(why("fail=3000;fail=4000|fail=3000", Code::environment), begin + plan + "INTERNAL_ERROR (4000)");
  EXPECT_EQ(why("|fail=5000;fail=4000", Code::environment), begin + plan + "EXECUTION_FAILED (5000)");
  EXPECT_EQ(why("fail=1001;workspace=1073741824|", Code::environment),
            begin + plan + "NOT_INITIALIZED (1001)");
}

// The library is not asked again for sizes without an engine, as long as their plan would be kept.
TEST_F(Cudnn, NoEngineIsRemembered) {
  const Graph graph = parsed(typed(kBlock, "f32"));
  options.limits.plans = 3;
  const auto program = make(graph);
  const auto refused = [&](int64_t n) {
    std::vector<HostTensor> got{HostTensor(DType::f32, {n, 6, 5, 7})};
    const Status status = run(*program, inputs_of(graph, {n, 5}), got);
    EXPECT_EQ(status.code(), Code::unsupported);
    EXPECT_THAT(status.message(), HasSubstr("no engine for " + std::to_string(n) + "x4x5x7 by"));
  };
  const auto asked = [] {
    return dnn().calls("cudnnBackendCreateDescriptor") + dnn().calls("cudnnBackendFinalize");
  };
  dnn().engines("fail=3000|");
  refused(2);
  const int once = asked();
  for (int i = 0; i < 3; ++i) refused(2);
  EXPECT_EQ(asked(), once);
  refused(1);
  EXPECT_EQ(asked(), 2 * once);
  dnn().engines("workspace=4096|");
  refused(2);  // also if the library has changed
  EXPECT_EQ(program->stats().plans.refusals, 2);
  for (int64_t n = 3; n < 9; ++n) check(*program, graph, {n, 5});
  check(*program, graph, {2, 5});  // the refusal was evicted by others
}

// After an error of another kind the library is asked again, since the error may have passed.
TEST_F(Cudnn, FailuresAreNotRemembered) {
  const Graph graph = parsed(typed(kBlock, "f32"));
  std::vector<HostTensor> got{HostTensor(DType::f32, {2, 6, 5, 7})};
  const auto program = make(graph);
  for (const char* engines : {"fail=4000|", "fail=3000;fail=5000|fail=3000"}) {
    dnn().engines(engines);
    EXPECT_EQ(run(*program, inputs_of(graph, {2, 5}), got).code(), Code::environment);
  }
  dnn().fail("cudnnBackendFinalize", 1, cudnn::kDnnInternalError);
  EXPECT_EQ(run(*program, inputs_of(graph, {2, 5}), got).code(), Code::environment);
  EXPECT_EQ(program->stats().plans.refusals, 0);
  dnn().engines("workspace=4096|");
  check(*program, graph, {2, 5});
}

// There is an engine only for aligned tensors.
TEST_F(Cudnn, NoEngineForSomePointers) {
  dnn().engines("aligned=16|");
  const Graph graph = parsed(one("%x: f32[2,9,7,4], %w: f32[6,4,1,1]", k2d + ", layout=\"channels_last\""));
  const auto program = make(graph);
  check(*program, graph, {});
  std::vector<HostTensor> got{HostTensor(DType::f32, {2, 9, 7, 6})};
  int made = 0;
  for (int i = 0; i < 3; ++i) {
    const Status status = run(*program, inputs_of(graph, {}), got, 4);
    EXPECT_EQ(status.code(), Code::unsupported);
    EXPECT_THAT(status.message(), HasSubstr("aligned to 4 bytes: cudnnBackendFinalize of its plan"));
    if (i > 0) {
      EXPECT_EQ(dnn().calls("cudnnBackendCreateDescriptor"), made);
    }
    made = dnn().calls("cudnnBackendCreateDescriptor");
  }
  check(*program, graph, {});
}

// The library refuses an operation before it names engines.
TEST_F(Cudnn, GraphThatIsRefused) {
  const Graph graph = parsed(one("%x: f32[N,4,9,7], %w: f32[6,4,1,1]", k2d));
  const auto program = make(graph);
  dnn().fail("cudnnBackendFinalize", 6, 3004);  // after three tensors, the convolution, the operation
  for (int i = 0; i < 2; ++i) {
    std::vector<HostTensor> got{HostTensor(DType::f32, {2, 6, 9, 7})};
    const Status status = run(*program, inputs_of(graph, {2}), got);
    EXPECT_EQ(status.code(), Code::unsupported);
    EXPECT_EQ(
        status.message(),
        "cuDNN has no 2x4x9x7 by 6x4x1x1 f32: cudnnBackendFinalize of its graph: status (3004): as planned");
    EXPECT_EQ(dnn().calls("cudnnBackendFinalize"), 6);
  }
  check(*program, graph, {3});
  check(*make(graph), graph, {2});
}

TEST_F(Cudnn, EveryCallFailsInTurn) {
  const Graph graph = parsed(typed(kBlock, "f32"));
  const int failed =
      fail_in_turn(kFunctions, graph, {2, 5}, cudnn::kDnnInternalError,
                   [](const Status& status, const std::string& function) {
                     EXPECT_TRUE(status.code() == Code::environment || status.code() == Code::unsupported)
                         << status.message();
                     EXPECT_THAT(status.message(), HasSubstr(function));
                     EXPECT_THAT(status.message(), HasSubstr("CUDNN_STATUS_INTERNAL_ERROR (4000)"));
                   });
  EXPECT_GE(failed, 40);
}

TEST_F(Cudnn, DriverFails) {
  const Graph graph = parsed(one("%x: f32[2,C,4,5], %w: f32[6,C,1,1]", k2d));
  const auto program = make(graph);
  check(*program, graph, {0});
  std::vector<HostTensor> got{HostTensor(DType::f32, {2, 6, 4, 5})};
  mock().fail("cuMemsetD8Async", 1, 700);
  EXPECT_THAT(run(*program, inputs_of(graph, {0}), got).message(),
              HasSubstr("cuMemsetD8Async: CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  check(*program, graph, {0});
}

// The mock refuses a handle or a plan that two threads use.
TEST_F(Cudnn, Threads) {
  const Graph graph = parsed(typed(kBlock, "f32"));
  check_threads(graph, {2, 5}, 0, 50);
  EXPECT_GE(dnn().calls("cudnnCreate"), 1);
  EXPECT_LE(dnn().calls("cudnnCreate"), 5);
}

TEST_F(Cudnn, OfAnotherDevice) {
  const Graph graph = parsed(one("%x: f32[2,4,9,7], %w: f32[6,4,3,3]", k2d));
  check(*make(graph), graph, {});
  options.device.index = 1;
  check(*make(graph), graph, {});  // the mock refuses a handle in another device's context
  EXPECT_EQ(dnn().calls("cudnnCreate"), 2);
}

TEST_F(Cudnn, ConvolutionsItHasNot) {
  const auto strided =
      Program::make(parsed(("graph @f(%x: f32[2,9,7,4], %w: f32[6,4,1,1]) {\n %y = convolution(%x, %w){" +
                            k2d + ", layout=\"channels_last\"}\n return %y strides=[378,1,54,9]\n}")),
                    options, {});
  EXPECT_EQ(strided.status().code(), Code::unsupported);
  EXPECT_THAT(strided.status().message(),
              HasSubstr("cudnn: cuDNN cannot write its result with these strides"));
}

TEST_F(Cudnn, NoLibrary) {
  setenv("TENON_CUDNN", "off", 1);
  cudnn::forget_library();
  const Graph graph = parsed(typed(kBlock, "f32"));
  const Bid bid = find_backend("cudnn")->bid(graph, 4);
  EXPECT_FALSE(bid.yes);
  EXPECT_EQ(bid.why, "cuDNN is off: TENON_CUDNN=off");
  const auto program = Program::make(graph, options, {});
  EXPECT_EQ(program.status().code(), Code::unsupported);  // the host runs the node itself
  EXPECT_THAT(program.status().message(), HasSubstr("cudnn: cuDNN is off: TENON_CUDNN=off"));
  setenv("TENON_CUDNN", kCudnnMock, 1);
  cudnn::forget_library();
  EXPECT_TRUE(find_backend("cudnn")->bid(graph, 4).yes);
}

// Loops compute poolings: no library is asked, and NaN stays NaN.
TEST_F(Cudnn, Poolings) {
  for (const auto& [type, pool] :
       {std::pair{"f32", "max_pool(%x){kernel=[3,2], strides=[2,1], padding=[1,0], padding_high=[1,1]}"},
        {"bf16",
         "max_pool(%x){kernel=[2,2], strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[2,3]}"},
        {"f32",
         "avg_pool(%x){kernel=[3,2], strides=[2,1], padding=[1,0], padding_high=[1,0], "
         "count_include_pad=false}"},
        {"bf16", "adaptive_avg_pool(%x){output=[1,1]}"},
        {"f32", "adaptive_avg_pool(%x){output=[3,2]}"}}) {
    SCOPED_TRACE(testing::Message() << type << " " << pool);
    check(typed("graph @f(%x: T[2,5,9,7]) {\n %y = " + std::string(pool) + "\n return %y\n}", type));
  }
  const Graph graph = parsed(
      "graph @f(%x: f32[1,2,4,4]) {\n %y = max_pool(%x){kernel=[2,2], strides=[2,2], padding=[0,0], "
      "padding_high=[0,0]}\n return %y\n}");
  std::vector<HostTensor> inputs = inputs_of(graph, {}), got{HostTensor(DType::f32, {1, 2, 2, 2})};
  reinterpret_cast<float*>(inputs[0].bytes.data())[5] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(run(*make(graph), inputs, got).ok());
  EXPECT_TRUE(std::isnan(got[0].number(0)));
  EXPECT_FALSE(std::isnan(got[0].number(1)));
  EXPECT_EQ(dnn().calls("cudnnBackendExecute"), 0);
}

// Poolings between convolutions, as in networks.
TEST_F(Cudnn, PoolingsAmongConvolutions) {
  check(R"(graph @f(%x: f32[2,3,9,9], %v: f32[4,3,3,3], %w: f32[6,4,1,1], %b: f32[6]) {
  %c = convolution(%x, %v){strides=[2,2], padding=[1,1], padding_high=[1,1], dilations=[1,1]}
  %r = relu(%c)
  %p = max_pool(%r){kernel=[3,3], strides=[2,2], padding=[1,1], padding_high=[1,1]}
  %d = convolution(%p, %w, %b){strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1]}
  %a = adaptive_avg_pool(%d){output=[1,1]}
  return %a
})");
  EXPECT_EQ(dnn().calls("cudnnBackendExecute"), 2);
}

}  // namespace
}  // namespace tenon
