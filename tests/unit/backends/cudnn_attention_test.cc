// Attention as one call of cuDNN, with the mock and without a GPU: how heads, lengths, strides and masks are passed, what is copied
// first, what loops and cuBLASLt or the host run instead, missing engines, failures, CUDA graphs.
#include "backends/nvidia/cudnn/attention.h"

#include <cstring>
#include <limits>

#include "src/ops/rows/names.h"
#include "src/runtime/compile/query.h"
#include "tests/support/nvidia/cudnn_help.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string one(const std::string& inputs, const std::string& attributes,
                const std::string& operands = "%q, %k, %v") {
  return "graph @f(" + inputs + ") {\n %y = attention(" + operands + "){" + attributes + "}\n return %y\n}";
}
// The text of an attention with heads of 16 elements.
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
  // Values of another size than keys, and the layout with heads behind the length.
  check(one("%q: f16[2,3,5,8], %k: f16[2,3,6,8], %v: f16[2,3,6,24]", "scale=0.3, causal=true"));
  check(one("%q: f16[2,5,4,8], %k: f16[2,6,2,8], %v: f16[2,6,2,8]", "scale=0.3, layout=\"heads_last\""));
  EXPECT_THAT(lines().back(), HasSubstr("attention 2x4x5x8 by 2x2x6x8 f16"));
}

// The scale is a number of the call: calls with different scales share a plan.
TEST_F(CudnnAttention, ScalesShareAPlan) {
  const Graph graph = parsed(sized("2,4,7", "2,4,9", "scale=0.25")),
              other = parsed(sized("2,4,7", "2,4,9", "scale=-1.5"));
  const auto first = make(graph), second = make(other);
  check(*first, graph, {});
  const int finalized = dnn().calls("cudnnBackendFinalize");
  check(*second, other, {});
  check(*first, graph, {});
  EXPECT_EQ(dnn().calls("cudnnBackendFinalize"), finalized + 2);  // the variant packs of two runs
}

// The part of a mask that is not broadcast is read in place.
TEST_F(CudnnAttention, Masks) {
  const auto with = [](const std::string& mask, const std::string& type, const std::string& kv = "2,4,9,16") {
    return typed(one("%q: T[2,4,7,16], %k: T[" + kv + "], %v: T[" + kv + "], %m: " + type + "[" + mask + "]",
                     "scale=0.25", "%q, %k, %v, %m"),
                 "bf16");
  };
  for (const auto& [mask, said] : {std::pair{"2,4,7,9", "2x4x7x9"},
                                   {"1,1,7,9", "1x1x7x9"},
                                   {"2,1,1,9", "2x1x1x9"},
                                   {"4,1,9", "1x4x1x9"},
                                   {"7,9", "1x1x7x9"},
                                   {"9", "1x1x1x9"},
                                   {"2,1,7,1", "2x1x7x9"},
                                   {"", "1x1x1x9"}})
    for (const char* type : {"bf16", "f32"}) {
      SCOPED_TRACE(testing::Message() << mask << " " << type);
      dnn().reset();
      const Graph graph = parsed(with(mask, type));
      const auto program = make(graph);
      check(*program, graph, {});
      EXPECT_THAT(program->explain(false), HasSubstr(std::string(" bf16, mask ") + said));
      EXPECT_THAT(lines(), ElementsAre(std::string("attention 2x4x7x16 by 2x4x9x16 bf16 mask ") + said + " " +
                                       type + ", engine A0 aligned 16 stream 7"));
    }
  check(with("2,1,7,9", "bf16", "2,2,9,16"));
  check(with("2,1,7,0", "bf16", "2,4,0,16"));
  check(one("%q: f16[2,5,4,8], %k: f16[2,6,2,8], %v: f16[2,6,2,8], %m: f16[2,1,5,6]",
            "scale=0.3, layout=\"heads_last\"", "%q, %k, %v, %m"));
}

// Hidden columns do not count, rows without visible columns are zero, and NaN stays NaN.
TEST_F(CudnnAttention, WhatMasksHide) {
  for (const char* hidden : {"-inf", "-3.3895313892515355e+38", "-65504.0"})
    for (const char* type : {"bf16", "f16", "f32"}) {
      SCOPED_TRACE(testing::Message() << hidden << " " << type);
      const std::string text = R"(graph @f(%q: T[2,4,9,16], %k: T[2,4,13,16], %v: T[2,4,13,16]) {
  %r = iota(){shape=[9,1], dtype=i32, axis=0}
  %c = iota(){shape=[1,13], dtype=i32, axis=1}
  %s = lt(%c, %r)
  %z = full(){value=0.0, dtype=TYPE, shape=[]}
  %h = full(){value=HIDDEN, dtype=TYPE, shape=[]}
  %m = where(%s, %z, %h)
  %y = attention(%q, %k, %v, %m){scale=0.25}
  return %y
})";
      if (std::string(type) == "f16" && hidden[1] == '3') continue;  // f16 cannot hold this number
      std::string said = typed(text, std::string(type) == "f32" ? "bf16" : type);
      for (const auto& [word, meant] : {std::pair{"HIDDEN", hidden}, {"TYPE", type}, {"TYPE", type}})
        said.replace(said.find(word), std::strlen(word), meant);
      dnn().reset();
      check(said);
      EXPECT_EQ(dnn().calls("cudnnBackendExecute"), 1);
    }
  const Graph graph = parsed(one("%q: bf16[1,1,3,8], %k: bf16[1,1,2,8], %v: bf16[1,1,2,8], %m: f32[3,2]",
                                 "scale=0.3", "%q, %k, %v, %m"));
  std::vector<HostTensor> inputs = inputs_of(graph, {}), got{HostTensor(DType::bf16, {1, 1, 3, 8})};
  const float inf = std::numeric_limits<float>::infinity();
  const float mask[] = {-inf, -inf, -inf, 1.5F, std::numeric_limits<float>::quiet_NaN(), -inf};
  std::memcpy(inputs[3].bytes.data(), mask, sizeof mask);
  ASSERT_TRUE(run(*make(graph), inputs, got).ok());
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(got[0].number(i), 0);
    EXPECT_EQ(got[0].number(8 + i), inputs[2].number(8 + i));
    EXPECT_TRUE(std::isnan(got[0].number(16 + i)));
  }
  // In a row that hides all columns, those hidden by a finite number remain visible, as in PyTorch.
  const float hidden[] = {
      -inf, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::lowest(), -inf, 0, 0};
  std::memcpy(inputs[3].bytes.data(), hidden, sizeof hidden);
  ASSERT_TRUE(run(*make(graph), inputs, got).ok());
  for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(got[0].number(i), inputs[2].number(i < 8 ? 8 + i : i - 8));
  std::memcpy(inputs[3].bytes.data(), mask, sizeof mask);
  inputs[0].set_number(8, std::numeric_limits<double>::quiet_NaN());
  ASSERT_TRUE(run(*make(graph), inputs, got).ok());
  for (int64_t i = 0; i < 8; ++i) EXPECT_TRUE(std::isnan(got[0].number(8 + i)));
}

// Masks as PyTorch makes them: slices of rows whose length is a multiple of 8, broadcast over heads and rows.
TEST_F(CudnnAttention, MasksThatAreViews) {
  const std::string text = R"(graph @f(%q: bf16[2,4,7,16], %k: bf16[2,4,9,16], %p: bf16[2,1,ROWS,16]) {
  %s = slice(%p){axis=3, start=0, end=9}
  %m = expand(%s){shape=[2,4,7,9]}
  %y = attention(%q, %k, %k, %m){scale=0.25}
  return %y
})";
  for (const char* rows : {"1", "7"}) {
    SCOPED_TRACE(rows);
    std::string said = text;
    said.replace(said.find("ROWS"), 4, rows);
    const Graph graph = parsed(said);
    const auto program = make(graph);
    EXPECT_EQ(program->stats().steps, 4);  // the bounded mask, the rows it hides, the call, the result
    check(*program, graph, {});
    EXPECT_THAT(lines().back(), HasSubstr("mask 2x1x" + std::string(rows) + "x9 bf16"));
  }
  // Masks whose columns are not adjacent are copied first.
  for (const char* view : {"transpose(%p){perm=[0,1,3,2]}", "flip(%r){axes=[3]}"})
    check("graph @f(%q: bf16[2,4,7,16], %k: bf16[2,4,9,16], %p: bf16[2,1,9,7], %r: bf16[2,1,7,9]) {\n %m = " +
          std::string(view) + "\n %y = attention(%q, %k, %k, %m){scale=0.25}\n return %y\n}");
}

TEST_F(CudnnAttention, MasksHavePlansOfTheirOwn) {
  const std::string q = "%q: bf16[2,4,7,16], %k: bf16[2,4,9,16], %v: bf16[2,4,9,16]";
  check(one(q, "scale=0.25"));
  for (const char* mask : {"bf16[2,1,7,9]", "f32[2,1,7,9]", "bf16[1,4,7,9]"})
    check(one(q + ", %m: " + mask, "scale=0.25", "%q, %k, %v, %m"));
  check("graph @f(" + q +
        ", %w: bf16[2,1,7,12]) {\n %m = slice(%w){axis=3, end=9}\n %y = attention(%q, %k, %v, "
        "%m){scale=0.25}\n "
        "return %y\n}");
  EXPECT_EQ(dnn().calls("cudnnBackendExecute"), 5);
}

// The pattern of a model: q, k and v are views of one product, and the result is reshaped to rows.
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

// Operands are copied if rows are not a multiple of 16 bytes apart, if elements are not dense, or if axes are broadcast or flipped.
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
    EXPECT_EQ(program->stats().steps, 3);  // a copy, the call, and the transpose of the result
    check(*program, graph, {});
  }
  check(
      "graph @f(%x: bf16[2,1,7,16], %k: bf16[2,4,9,16]) {\n %q = expand(%x){shape=[2,4,7,16]}\n %v = "
      "flip(%k){axes=[2]}\n "
      "%y = attention(%q, %k, %v){scale=0.25}\n return %y\n}");
  EXPECT_EQ(dnn().calls("cudnnBackendExecute"), 3);
}

TEST_F(CudnnAttention, NothingToSee) {
  check(sized("2,4,7", "2,4,0"));  // the result is zeros
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
  EXPECT_EQ(why_not(one("%q: f16[2,4,7,16], %k: f16[2,4,9,16], %v: f16[2,4,9,16], %m: f16[7,9]",
                        "scale=1.0, causal=true", "%q, %k, %v, %m")),
            "attention that is causal and has a mask is not given to cuDNN");
  // On a GPU, attention that must stay whole is then left to the host.
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
  for (const std::string& text :
       {sized("1,2,3", "1,2,5", "scale=0.25, causal=true"),
        one("%q: bf16[1,2,3,8], %k: bf16[1,2,5,8], %v: bf16[1,2,5,8], %m: bf16[3,5]", "scale=0.25",
            "%q, %k, %v, %m")}) {
    const int failed = fail_in_turn(functions, parsed(text), {}, cudnn::kDnnInternalError,
                                    [](const Status& status, const std::string& function) {
                                      EXPECT_THAT(status.message(), HasSubstr(function));
                                    });
    EXPECT_GE(failed, 100);
  }
}

TEST_F(CudnnAttention, InGraphsOfTheDevice) {
  const Graph graph = parsed(R"(graph @f(%q: bf16[2,4,7,16], %k: bf16[2,4,9,16], %m: bf16[7,9]) {
  %a = tanh(%q)
  %h = attention(%a, %k, %k, %m){scale=0.25}
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
