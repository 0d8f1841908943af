// Which sizes a program of the plugin for MXNet leaves open.
#include "bindings/mxnet/run/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bindings/mxnet/abi.h"
#include "bindings/mxnet/messages.h"

namespace tenon::plugin {
namespace {

using Shapes = std::vector<std::vector<int64_t>>;

Signature of(const Shapes& shapes, int dtype = kFloat32) {
  Signature signature;
  for (const auto& shape : shapes) append(signature, dtype, shape.data(), static_cast<int>(shape.size()));
  return signature;
}

std::string text(const Pattern& pattern) {
  std::string all;
  for (const InputType& type : input_types(pattern)) all += "[" + type.dims + "]";
  return all;
}

TEST(MxnetSignature, OneSignatureHasNoSymbols) {
  EXPECT_EQ(text(generalize({of({{3, 8}, {}, {16, 8}})})), "[3,8][][16,8]");
  EXPECT_FALSE(has_symbols(of({{3, 8}})));
}

TEST(MxnetSignature, SizesThatChangeTogetherShareASymbol) {
  const Pattern pattern = generalize({of({{3, 8}, {3}, {8}, {5}}), of({{4, 8}, {4}, {8}, {6}})});
  EXPECT_EQ(text(pattern), "[s0,8][s0][8][s1]");
  EXPECT_TRUE(has_symbols(pattern));
  EXPECT_TRUE(matches(pattern, of({{7, 8}, {7}, {8}, {9}})));
  EXPECT_FALSE(matches(pattern, of({{7, 8}, {6}, {8}, {9}})));
  EXPECT_FALSE(matches(pattern, of({{7, 9}, {7}, {8}, {9}})));
  EXPECT_FALSE(matches(pattern, of({{1, 8}, {1}, {8}, {9}})));
  EXPECT_FALSE(matches(pattern, of({{7, 8}, {7}, {8}, {9}}, kFloat64)));
  EXPECT_FALSE(matches(pattern, of({{7, 8}, {7}, {8}})));
}

TEST(MxnetSignature, SizesThatOnceDifferedAreDifferentSymbols) {
  EXPECT_EQ(text(generalize({of({{3}, {3}}), of({{4}, {4}}), of({{5}, {6}})})), "[s0][s1]");
}

TEST(MxnetSignature, OneAndZeroAreSizesOfTheirOwn) {
  EXPECT_TRUE(comparable(of({{3, 1}}), of({{4, 1}})));
  EXPECT_FALSE(comparable(of({{3, 1}}), of({{3, 2}})));
  EXPECT_FALSE(comparable(of({{0}}), of({{3}})));
  EXPECT_FALSE(comparable(of({{3}}), of({{3, 3}})));
  EXPECT_FALSE(comparable(of({{3}}), of({{3}}, kInt32)));
}

TEST(MxnetSignature, DtypesOfMxnet) {
  EXPECT_EQ(dtype_of(kFloat16).bits, 16);
  EXPECT_EQ(dtype_of(kUint8).code, 1);
  for (const int number : {kBool + 0, kBfloat16 + 0, -1}) EXPECT_THROW(dtype_of(number), Failure);
}

TEST(MxnetMessages, KeepsTheNewestAndCutsLongOnes) {
  clear_messages();
  for (int i = 0; i < 10; ++i) add_message((std::to_string(i) + std::string(10000, 'x')).c_str());
  EXPECT_EQ(message_count(), 4);
  EXPECT_EQ(message(0)[0], '6');
  EXPECT_EQ(message(3)[0], '9');
  EXPECT_LT(std::string(message(0)).size(), 3000u);
  EXPECT_STREQ(message(4), "");
  EXPECT_EQ(guarded([] {}), 1);
  EXPECT_EQ(message_count(), 0);
  EXPECT_EQ(guarded([] { throw 1; }), 0);
  EXPECT_STREQ(message(0), "an exception of unknown type");
}

}  // namespace
}  // namespace tenon::plugin
