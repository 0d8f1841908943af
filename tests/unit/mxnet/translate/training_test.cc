// Which operators may train (src/mxnet/translate/training.h). tests/mxnet/gradients_test.py compares their gradients with MXNet's.
#include "src/mxnet/translate/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/mxnet/translate/translate.h"
#include "tests/support/symbol_text.h"

namespace tenon::mxnet {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Why the last node stays with MXNet; "" if it does not.
std::string refusal(const std::string& notation, bool training = true) {
  const auto symbol = parse_symbol(symbol_json(notation));
  EXPECT_TRUE(symbol.ok()) << symbol.status().message();
  Options options;
  options.training = training;
  const Status status = check(*symbol, options).back().status;
  return status.ok() ? "" : status.message();
}

TEST(Training, OperatorsWhoseGradientIsMxnetsTrain) {
  for (const char* node : {"exp(x)", "Activation(x){act_type=relu}", "Pooling(x){kernel=(2, 2)}",
                           "Pooling(x){global_pool=True; pool_type=avg}", "clip(x){a_min=0; a_max=6}",
                           "LeakyReLU(x){act_type=gelu}", "Embedding(x w){input_dim=3; output_dim=2}",
                           "BatchNorm(x g b m v){use_global_stats=True}"})
    EXPECT_THAT(refusal(std::string("y = ") + node + "\nreturn y"), IsEmpty()) << node;
}

TEST(Training, OthersStay) {
  const std::pair<const char*, const char*> kCases[] = {
      {"BlockGrad(x)", "stops gradients"},
      {"make_loss(x)", "a loss's"},
      {"broadcast_maximum(x y)", "equal operands"},
      {"_npi_minimum_scalar(x){scalar=2}", "equal operands"},
      {"max(x)", "equal elements"},
      {"Pooling(x){global_pool=True}", "equal elements"},
      {"Pooling_v1(x){kernel=(2, 2)}", "equal elements"},
      {"LeakyReLU(x){act_type=selu}", "not the derivative"},
      {"Embedding(x w){input_dim=3; output_dim=2; sparse_grad=True}", "sparse"},
      {"BatchNorm(x g b m v)", "in training"},
      {"BatchNorm_v1(x g b m v){use_global_stats=True}", "only BatchNorm trains"},
  };
  for (const auto& [node, why] : kCases) {
    EXPECT_THAT(refusal(std::string("y = ") + node + "\nreturn y"), HasSubstr(why)) << node;
    EXPECT_THAT(refusal(std::string("y = ") + node + "\nreturn y", false), IsEmpty()) << node;
  }
}

TEST(Training, StatedIntegersStay) {
  const std::string whole = "a = _copy(x){__ext_dtype__=[4]}\n", real = "a = _copy(x){__ext_dtype__=[0]}\n";
  EXPECT_THAT(refusal(whole + "y = exp(a){__ext_dtype__=[4]}\nreturn y"),
              HasSubstr("computes with integers"));
  EXPECT_THAT(refusal(whole + "y = exp(a)\nreturn y", false), IsEmpty());
  EXPECT_THAT(refusal(real + "y = Cast(a){dtype=int32; __ext_dtype__=[4]}\nreturn y"),
              HasSubstr("makes integers"));
  EXPECT_THAT(refusal(real + "y = exp(a){__ext_dtype__=[0]}\nreturn y"), IsEmpty());
  // Of these, the gradient is 0.
  EXPECT_THAT(refusal(whole + "y = Embedding(a w){input_dim=3; output_dim=2}\nreturn y"), IsEmpty());
  EXPECT_THAT(refusal(whole + "y = take(w a)\nreturn y"), IsEmpty());
  EXPECT_THAT(refusal(whole + "y = take(a w)\nreturn y"), HasSubstr("computes with integers"));
  EXPECT_THAT(refusal(whole + "y = _equal(a b){__ext_dtype__=[4]}\nreturn y"), IsEmpty());
}

TEST(Check, ADtypeThatTenonWouldChangeStays) {
  const auto of = [](const std::string& dtype, const std::string& shape) {
    return "{__ext_dtype__=" + dtype + "; __ext_shape__=" + shape + "}\n";
  };
  const std::string whole = "a = _copy(x)" + of("[4]", "[[2,3]]"), sum = "y = mean(a)";
  EXPECT_THAT(refusal(whole + sum + of("[4]", "[[1]]") + "return y", false),
              HasSubstr("needs a float dtype"));
  const std::string truth = "y = _npi_equal(a a)";
  EXPECT_THAT(refusal(whole + truth + of("[4]", "[[2,3]]") + "return y", false),
              HasSubstr("MXNet's result is i32, Tenon's would be bool"));
  EXPECT_THAT(refusal(whole + truth + of("[4]", "[None]") + "return y", false),
              HasSubstr("MXNet's result is i32, Tenon's would be bool"));
  EXPECT_THAT(
      refusal("a = _copy(x)" + of("[4]", "[None]") + truth + of("[4]", "[[2,3]]") + "return y", false),
      IsEmpty());
  EXPECT_THAT(refusal(whole + "y = exp(a)" + of("[4]", "[[2,3]]") + "return y", false), IsEmpty());
}

TEST(Training, IntegersThatACallBringsAreRefused) {
  const auto symbol = parse_symbol(symbol_json("y = _mul_scalar(x){scalar=2}\nreturn y"));
  ASSERT_TRUE(symbol.ok());
  Options options;
  options.training = true;
  const Given whole[] = {{"x", DType::i32, "2,3"}}, real[] = {{"x", DType::f32, "2,3"}};
  EXPECT_THAT(translate(*symbol, options, whole).status().message(), HasSubstr("_mul_scalar 'y'"));
  EXPECT_TRUE(translate(*symbol, options, real).ok());
  options.training = false;
  EXPECT_TRUE(translate(*symbol, options, whole).ok());
}

TEST(Training, CopiesThatGuardAPartStay) {
  for (const bool training : {true, false}) {
    EXPECT_THAT(refusal("y = _copy(x){__tenon_guard__=y}\nreturn y", training),
                HasSubstr("sums of gradients"));
    EXPECT_THAT(refusal("y = _copy(x)\nreturn y", training), IsEmpty());
  }
}

}  // namespace
}  // namespace tenon::mxnet
