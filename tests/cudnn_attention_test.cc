// Attention on a GPU, without one, as one call of cuDNN's mock: how heads, lengths and strides reach it, what is copied before, what
// stays with loops and cuBLASLt or with the host, no engine, failures, CUDA graphs.
#include "backends/cudnn/attention.h"

#include "src/ops/names.h"
#include "src/runtime/query.h"
#include "tests/cudnn_help.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string one(const std::string& inputs, const std::string& attributes,
                const std::string& operands = "%q, %k, %v") {
  return "graph @f(" + inputs + ") {\n %y = attention(" + operands + "){" + attributes + "}\n return %y\n}";
}
// Heads of 16 elements.
std::string sized(const std::string& q, const std::string& k, const std::string& attributes = "scale=0.25",
                  const std::string& type = "bf16") {
  return typed(one("%q: T[" + q + ",16], %k: T[" + k + ",16], %v: T[" + k + ",16]", attributes), type);
}

class CudnnAttention : public Cudnn {
 protected:
  static std::string why_not(const std::string& text) {
    const Graph graph = parsed(text);
    for (ValueId v = 0; v < graph.nodes.size(); ++v)
      if (graph.node(v).op == ops::attention) return find_backend("cudnn")->bid(graph, v).why;
    return "no attention";
  }
};

TEST_F(CudnnAttention, OneCall) {
  for (const char* type : {"bf16", "f16"}) {
    SCOPED_TRACE(type);
    dnn().reset();
    const Graph graph = parsed(sized("2,4,7", "2,4,9", "scale=0.25", type));
    const auto program = make(graph);
    EXPECT_THAT(program->explain(false), HasSubstr("(cudnn): attention\n"));
    check(*program, graph, {});
    EXPECT_THAT(program->explain(false),
                HasSubstr("cuDNN attention 2x4x7x16 by 2x4x9x16 " + std::string(type)));
    EXPECT_THAT(lines(), ElementsAre("attention 2x4x7x16 by 2x4x9x16 " + std::string(type) +
                                     ", engine A0 aligned 16 stream 7"));
  }
}

TEST_F(CudnnAttention, Sizes) {
  for (const auto& [q, k] : {std::pair{"2,4,7", "2,4,9"},
                             {"1,1,1", "1,1,1"},
                             {"3,1,1", "3,1,13"},
                             {"1,2,13", "1,2,1"},
                             {"2,6,5", "2,2,8"},
                             {"2,6,5", "2,1,8"}})
    for (const char* attributes :
         {"scale=0.25", "scale=-1.5, causal=true", "scale=0.3, whole=true", "scale=0.0"}) {
      SCOPED_TRACE(std::string(q) + " by " + k + " " + attributes);
      check(sized(q, k, attributes));
    }
  EXPECT_EQ(dnn().calls("cudnnBackendExecute"), 24);
  // Values of another size than keys, and heads behind the length.
  check(one("%q: f16[2,3,5,8], %k: f16[2,3,6,8], %v: f16[2,3,6,24]", "scale=0.3, causal=true"));
  check(one("%q: f16[2,5,4,8], %k: f16[2,6,2,8], %v: f16[2,6,2,8]", "scale=0.3, layout=\"heads_last\""));
  EXPECT_THAT(lines().back(), HasSubstr("attention 2x4x5x8 by 2x2x6x8 f16"));
}

// The scale is a number of the call: no plan is made for it, and each call has its own.
TEST_F(CudnnAttention, ScalesShareAPlan) {
  const Graph graph = parsed(sized("2,4,7", "2,4,9", "scale=0.25")),
              other = parsed(sized("2,4,7", "2,4,9", "scale=-1.5"));
  const auto first = make(graph), second = make(other);
  check(*first, graph, {});
  const int finalized = dnn().calls("cudnnBackendFinalize");
  check(*second, other, {});
  check(*first, graph, {});
  EXPECT_EQ(dnn().calls("cudnnBackendFinalize"), finalized + 2);  // the pointers of two runs
}

// What a model does: heads of one product are views of it, and the result is its rows again.
TEST_F(CudnnAttention, NothingIsCopied) {
  const std::string text = R"(graph @f(%x: bf16[2,7,3,4,16]) {
  %a = slice(%x){axis=2, start=0, end=1}
  %b = slice(%x){axis=2, start=1, end=2}
  %c = slice(%x){axis=2, start=2, end=3}
  %d = reshape(%a){shape=[2,7,4,16]}
  %e = reshape(%b){shape=[2,7,4,16]}
  %f = reshape(%c){shape=[2,7,4,16]}
  %q = transpose(%d){perm=[0,2,1,3]}
  %k = transpose(%e){perm=[0,2,1,3]}
  %v = transpose(%f){perm=[0,2,1,3]}
  %h = attention(%q, %k, %v){scale=0.25, causal=true}
  %t = transpose(%h){perm=[0,2,1,3]}
  %y = reshape(%t){shape=[2,7,64]}
  %z = tanh(%y)
  return %z
})";
  const Graph graph = parsed(text);
  const auto program = make(graph);
  EXPECT_EQ(program->stats().steps, 2);
  check(*program, graph, {});
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("attention 2x4x7x16 by 2x4x7x16 bf16 causal")));
}

// Rows that are not 16 bytes apart, elements that are not dense, what is repeated or turned around.
TEST_F(CudnnAttention, OtherwiseItIs) {
  for (const char* view :
       {"slice(%x){axis=3, start=0, end=16}", "slice(%x){axis=3, start=0, end=32, step=2}"}) {
    SCOPED_TRACE(view);
    const int64_t wide = std::string(view).find("step") == std::string::npos ? 20 : 32;
    const std::string text = "graph @f(%x: bf16[2,4,7," + std::to_string(wide) +
                             "], %k: bf16[2,4,9,16]) {\n %q = " + view +
                             "\n %y = attention(%q, %k, %k){scale=0.25}\n return %y\n}";
    const Graph graph = parsed(text);
    const auto program = make(graph);
    EXPECT_EQ(program->stats().steps, 3);  // a copy, the call, and the order of the result that is returned
    check(*program, graph, {});
  }
  check(
      "graph @f(%x: bf16[2,1,7,16], %k: bf16[2,4,9,16]) {\n %q = expand(%x){shape=[2,4,7,16]}\n %v = "
      "flip(%k){axes=[2]}\n "
      "%y = attention(%q, %k, %v){scale=0.25}\n return %y\n}");
  EXPECT_EQ(dnn().calls("cudnnBackendExecute"), 3);
}

TEST_F(CudnnAttention, NothingToSee) {
  check(sized("2,4,7", "2,4,0"));  // zeros
  check(sized("2,4,0", "2,4,9"));
  check(sized("0,4,7", "0,4,9"));
  EXPECT_EQ(dnn().calls("cudnnBackendExecute"), 0);
}

TEST_F(CudnnAttention, WhatItIsNotAsked) {
  const std::string fewer = "cuDNN computes attention of f16 and bf16, and f32 in fewer bits";
  EXPECT_EQ(why_not(sized("2,4,7", "2,4,9", "scale=0.25", "f32")), fewer);
  EXPECT_EQ(why_not(sized("2,4,7", "2,4,9", "scale=0.25", "f64")), fewer);
  EXPECT_EQ(why_not(sized("N,4,7", "N,4,9")), "cuDNN would compile attention anew for every size");
  EXPECT_EQ(why_not(sized("2,4,L", "2,4,L")), "cuDNN would compile attention anew for every size");
  EXPECT_EQ(why_not(one("%q: f16[2,4,7,20], %k: f16[2,4,9,20], %v: f16[2,4,9,16]", "scale=1.0")),
            "cuDNN has no attention with heads of 20 elements");
  EXPECT_EQ(why_not(one("%q: f16[2,4,7,16], %k: f16[2,4,9,16], %v: f16[2,4,9,264]", "scale=1.0")),
            "cuDNN has no attention with heads of 264 elements");
  EXPECT_EQ(why_not(one("%q: f16[2,4,7,0], %k: f16[2,4,9,0], %v: f16[2,4,9,16]", "scale=1.0")),
            "cuDNN has no attention with heads of 0 elements");
  EXPECT_EQ(why_not(one("%q: f16[2,4,7,16], %k: f32[2,4,9,16], %v: f16[2,4,9,16]", "scale=1.0")),
            "operands of different dtypes");
  EXPECT_EQ(why_not(one("%q: f16[2,4,7,16], %k: f16[2,4,9,16], %v: f16[2,4,9,16], %m: f16[7,9]", "scale=1.0",
                        "%q, %k, %v, %m")),
            "attention with a mask is not given to cuDNN");
  // Attention that must be whole is then the host's, on a GPU.
  const Graph graph = parsed(sized("N,4,7", "N,4,9", "scale=0.25, whole=true"));
  const auto program = Program::make(graph, options, {});
  EXPECT_EQ(program.status().code(), Code::unsupported);
  EXPECT_THAT(program.status().message(),
              HasSubstr("cudnn: cuDNN would compile attention anew for every size"));
  EXPECT_EQ(query(graph, DeviceId::kCuda).back().backend, "");
  EXPECT_NE(query(graph, DeviceId::kCpu).back().backend, "");
}

TEST_F(CudnnAttention, NoEngine) {
  const Graph graph = parsed(sized("2,4,7", "2,4,9"));
  const auto program = make(graph);
  std::vector<HostTensor> got{HostTensor(DType::bf16, {2, 4, 7, 16})};
  dnn().engines("reduced|");
  const Status status = run(*program, inputs_of(graph, {}), got);
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_EQ(status.message(),
            "cuDNN has no engine for 2x4x7x16 by 2x4x9x16 bf16 of tensors aligned to 16 bytes");
  dnn().engines("compiles tensorcore workspace=256|");
  check(*make(graph), graph, {});
}

TEST_F(CudnnAttention, EveryCallFailsInTurn) {
  const char* const functions[] = {"cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
                                   "cudnnBackendFinalize", "cudnnBackendExecute"};
  const int failed =
      fail_in_turn(functions, parsed(sized("1,2,3", "1,2,5", "scale=0.25, causal=true")), {},
                   cudnn::kDnnInternalError, [](const Status& status, const std::string& function) {
                     EXPECT_THAT(status.message(), HasSubstr(function));
                   });
  EXPECT_GE(failed, 100);
}

TEST_F(CudnnAttention, InGraphsOfTheDevice) {
  const Graph graph = parsed(R"(graph @f(%q: bf16[2,4,7,16], %k: bf16[2,4,9,16]) {
  %a = tanh(%q)
  %h = attention(%a, %k, %k){scale=0.25}
  %s = softmax(%h){axis=-1}
  %i = attention(%s, %k, %k){scale=0.25}
  %y = tanh(%i)
  return %y
})");
  options.graphs = DeviceGraphs::always;
  const auto program = make(graph);
  EXPECT_GE(program->stats().steps, 4);
  for (int i = 0; i < 8; ++i) check(*program, graph, {});
  EXPECT_GE(mock().calls("cuGraphLaunch"), 1);
}

}  // namespace
}  // namespace tenon
