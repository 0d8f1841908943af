// The spellings of attributes (src/mxnet/attrs.h).
#include "src/mxnet/attrs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tenon::mxnet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Attrs, Integers) {
  EXPECT_EQ(read_attr_int("3"), 3);
  EXPECT_EQ(read_attr_int(" -1 "), -1);
  EXPECT_EQ(read_attr_int("3L"), 3);
  EXPECT_EQ(read_attr_int("+4"), 4);
  for (const char* wrong : {"", "L", "3.0", "3x", "1e3", "None", "99999999999999999999", "1000000000000000"})
    EXPECT_EQ(read_attr_int(wrong), std::nullopt) << wrong;
}

TEST(Attrs, Numbers) {
  EXPECT_EQ(read_attr_float("1e-05"), 1e-5);
  EXPECT_EQ(read_attr_float("2"), 2.0);
  EXPECT_EQ(read_attr_float("0.5f"), 0.5);
  EXPECT_EQ(read_attr_float("-inf"), -INFINITY);
  EXPECT_TRUE(std::isnan(*read_attr_float("nan")));
  for (const char* wrong : {"", "f", "1.2.3", "None", "(1,)"})
    EXPECT_EQ(read_attr_float(wrong), std::nullopt) << wrong;
}

TEST(Attrs, Truth) {
  for (const char* yes : {"True", "true", "1"}) EXPECT_EQ(read_attr_bool(yes), true) << yes;
  for (const char* no : {"False", "false", "0"}) EXPECT_EQ(read_attr_bool(no), false) << no;
  for (const char* wrong : {"", "yes", "2", "None"}) EXPECT_EQ(read_attr_bool(wrong), std::nullopt) << wrong;
}

TEST(Attrs, Tuples) {
  using T = Tuple;
  EXPECT_EQ(read_attr_tuple("(3, 3)"), (T{3, 3}));
  EXPECT_EQ(read_attr_tuple("(1,)"), (T{1}));
  EXPECT_EQ(read_attr_tuple("7"), (T{7}));
  EXPECT_EQ(read_attr_tuple("[3,3]"), (T{3, 3}));
  EXPECT_EQ(read_attr_tuple("(3L, -4L)"), (T{3, -4}));
  EXPECT_EQ(read_attr_tuple("()"), T{});
  EXPECT_EQ(read_attr_tuple("[]"), T{});
  EXPECT_EQ(read_attr_tuple("(None, 2)"), (T{std::nullopt, 2}));
  for (const char* wrong : {"", "(", "(1", "(1]", "(1,,2)", "(a,)", "(1 2)"})
    EXPECT_EQ(read_attr_tuple(wrong), std::nullopt) << wrong;
  EXPECT_EQ(read_attr_tuple("(" + std::string(20000, '1') + ")"), std::nullopt);
}

TEST(Attrs, DTypes) {
  EXPECT_EQ(read_attr_dtype("float32"), DType::f32);
  EXPECT_EQ(read_attr_dtype("0"), DType::f32);
  EXPECT_EQ(read_attr_dtype("6"), DType::i64);
  EXPECT_EQ(read_attr_dtype("bool"), DType::b8);
  EXPECT_EQ(read_attr_dtype("12"), DType::bf16);
  for (const char* wrong : {"", "complex64", "99", "-1"})
    EXPECT_EQ(read_attr_dtype(wrong), std::nullopt) << wrong;
}

const auto& columns() {
  static const auto made =
      parse_columns("kernel:shape eps:float=0.1 exact:double=0.1 axis:int?=None mode:text{a,b}=a x:any=");
  return made;
}

SymbolNode node(std::vector<std::pair<std::string, std::string>> attrs) {
  SymbolNode n;
  for (auto& [key, value] : attrs) n.set_attr(key, value);
  return n;
}

TEST(Attrs, DefaultsAndValues) {
  const SymbolNode n = node({{"kernel", "(3, 3)"}, {"mode", "b"}, {"__hidden__", "1"}, {"x", "anything"}});
  const auto a = Attrs::read(columns(), n);
  ASSERT_TRUE(a.ok()) << a.status().message();
  EXPECT_THAT(a->ints("kernel"), ElementsAre(3, 3));
  EXPECT_EQ(a->number("eps"), static_cast<double>(0.1F));
  EXPECT_EQ(a->number("exact"), 0.1);
  EXPECT_TRUE(a->is_none("axis"));
  EXPECT_EQ(a->text("mode"), "b");
}

TEST(Attrs, Mistakes) {
  auto refusal = [](std::vector<std::pair<std::string, std::string>> attrs) {
    const SymbolNode n = node(std::move(attrs));
    return Attrs::read(columns(), n).status();
  };
  EXPECT_THAT(refusal({}).message(), HasSubstr("needs the attribute kernel"));
  EXPECT_THAT(refusal({{"kernel", "x"}}).message(), HasSubstr("kernel is 'x', not a tuple"));
  EXPECT_THAT(refusal({{"kernel", "1"}, {"mode", "c"}}).message(), HasSubstr("not one of a b"));
  EXPECT_THAT(refusal({{"kernel", "1"}, {"eps", "None"}}).message(), HasSubstr("not a number"));
  const Status unknown = refusal({{"kernel", "1"}, {"new", "1"}});
  EXPECT_EQ(unknown.code(), Code::unsupported);
  EXPECT_THAT(unknown.message(), HasSubstr("new"));
}

}  // namespace
}  // namespace tenon::mxnet
