// src/base: statuses, text, environment, hashes, log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <locale>
#include <memory>
#include <random>

#include "src/base/build_id.h"
#include "src/base/cpu.h"
#include "src/base/env.h"
#include "src/base/function_ref.h"
#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/base/status.h"
#include "src/base/text.h"
#include "src/base/threads/immortal.h"
#include "tests/support/paths.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ---- status ----

Result<int> half(int x) {
  if (x % 2) return invalid("odd");
  return x / 2;
}
Result<int> quarter(int x) {
  TENON_ASSIGN(int y, half(x));
  TENON_ASSIGN(int z, half(y));
  return z;
}

TEST(Status, CarriesCodeAndMessage) {
  EXPECT_TRUE(Status().ok());
  EXPECT_TRUE(Status().at("here").ok());
  Status s = unsupported("no").at("node");
  EXPECT_EQ(s.code(), Code::unsupported);
  EXPECT_EQ(s.message(), "node: no");
  EXPECT_STREQ(code_name(Code::environment), "environment");
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(6).status().message(), "odd");
}

TEST(Status, CheckThrowsWithPlaceAndMessage) {
  try {
    TENON_CHECK(1 == 2, "arithmetic");
    FAIL();
  } catch (const InternalError& e) {
    EXPECT_THAT(e.what(), HasSubstr("arithmetic"));
    EXPECT_THAT(e.what(), HasSubstr("base_test.cc"));
  }
}

// ---- lexer ----

std::vector<std::string> tokens(std::string_view text) {
  std::vector<std::string> out;
  Lexer lexer(text);
  for (int i = 0; i < 1000; ++i) {
    Token t = lexer.next();
    std::string kind = std::string("enifhspb").substr(static_cast<size_t>(t.kind), 1);
    out.push_back(kind + std::to_string(t.line) + ":" + std::to_string(t.column) + " " + std::string(t.text));
    if (t.kind == Token::Kind::end) return out;
  }
  return {"endless"};
}

TEST(Lexer, TokensWithPlaces) {
  EXPECT_THAT(tokens("ab.c_1 %x//2\r\n\t; comment 1\n 0x0f 1.5e3 17 \"a\\\"b\" ;"),
              ElementsAre("n1:1 ab.c_1", "p1:8 %", "n1:9 x", "p1:10 //", "i1:12 2", "h3:2 0x0f", "f3:7 1.5e3",
                          "i3:13 17", "s3:16 \"a\\\"b\"", "e3:24 "));
}

TEST(Lexer, BadTokensSayWhy) {
  for (auto [text, why] : {std::pair("\"abc", "without closing quote"),
                           {"\"\\q\"", "unknown escape"},
                           {"1e999", "out of range"},
                           {"12ab", "malformed number"},
                           {"99999999999999999999", "beyond 64 bits"},
                           {"\x01", "unexpected byte"},
                           {"\xff", "unexpected byte '\\xff'"}}) {
    Lexer lexer(text);
    EXPECT_EQ(lexer.peek().kind, Token::Kind::bad) << text;
    Status s = lexer.expected("anything");
    EXPECT_THAT(s.message(), HasSubstr(why));
    EXPECT_THAT(s.message(), HasSubstr("1:1: "));
  }
}

TEST(Lexer, ReadersAndErrors) {
  Lexer lexer("-9223372036854775808 9223372036854775807 -inf nan -2 %x %12 % y -9223372036854775809");
  EXPECT_EQ(*lexer.integer(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*lexer.integer(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(*lexer.number(), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(*lexer.number()));
  EXPECT_EQ(*lexer.number(), -2.0);
  EXPECT_EQ(*lexer.value_name(), "x");
  EXPECT_EQ(*lexer.value_name(), "12");
  EXPECT_FALSE(lexer.value_name().ok());
  lexer.next();
  EXPECT_THAT(lexer.integer().status().message(), HasSubstr("1:65: integer beyond 64 bits"));
}

TEST(Lexer, LineEndsAreNamedWhereStatementsAreLines) {
  Lexer lexer("a b\nc");
  lexer.begin_statement();
  lexer.next();
  lexer.next();
  EXPECT_EQ(lexer.expected("d").message(), "1:4: expected d, found the end of the line");
  lexer.begin_statement();
  EXPECT_EQ(lexer.expected("d").message(), "2:1: expected d, found 'c'");
}

TEST(Lexer, MarksReturn) {
  Lexer lexer("a\n b c");
  lexer.next();
  Lexer::Mark mark = lexer.mark();
  lexer.next();
  lexer.next();
  EXPECT_TRUE(lexer.at_end());
  lexer.reset(mark);
  EXPECT_EQ(lexer.peek().text, "b");
  EXPECT_EQ(lexer.peek().line, 2);
  EXPECT_EQ(lexer.peek().column, 2);
}

TEST(Lexer, LongNames) {
  std::string name(kMaxName, 'x');
  EXPECT_EQ(Lexer(name).peek().kind, Token::Kind::name);
  EXPECT_EQ(Lexer(name + "x").peek().kind, Token::Kind::bad);
}

TEST(Lexer, TextOfAnyBytesReadsBack) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 20, 0);
    for (char& c : bytes) c = static_cast<char>(random());
    std::string quoted = quote(bytes);
    Lexer lexer(quoted);
    auto back = lexer.string();
    ASSERT_TRUE(back.ok()) << quoted;
    EXPECT_EQ(*back, bytes);
    EXPECT_TRUE(lexer.at_end());
    EXPECT_EQ(*from_hex(to_hex(bytes.data(), bytes.size())), bytes);
  }
}

// ---- literals ----

TEST(Literals, DoublesReadBackAndAreNoIntegers) {
  EXPECT_EQ(print_double(1), "1.0");
  EXPECT_EQ(print_double(-0.0), "-0.0");
  EXPECT_EQ(print_double(0.1), "0.1");
  EXPECT_EQ(print_double(1e22), "1e+22");
  EXPECT_EQ(print_double(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(print_double(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(print_double(-std::numeric_limits<double>::quiet_NaN()), "nan");
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    double x = std::bit_cast<double>(random());
    // Every other number is a denormal or an integer, which random bits seldom are.
    if (i % 4 == 1) x = std::bit_cast<double>(random() >> 12);
    if (i % 4 == 3) x = static_cast<double>(static_cast<int64_t>(random()) >> (random() % 64));
    if (std::isnan(x)) continue;
    std::string text = print_double(x);
    Lexer lexer(text);
    auto back = lexer.number();
    ASSERT_TRUE(back.ok()) << text;
    ASSERT_EQ(std::bit_cast<uint64_t>(*back), std::bit_cast<uint64_t>(x)) << text;
    ASSERT_TRUE(lexer.at_end());
    ASSERT_NE(Lexer(text[0] == '-' ? std::string_view(text).substr(1) : std::string_view(text)).peek().kind,
              Token::Kind::integer)
        << text;
  }
}

// A locale with a decimal comma must change nothing. The facet replaces a locale that may not be installed.
struct Comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  std::string do_grouping() const override { return "\3"; }
  char do_thousands_sep() const override { return '.'; }
};

TEST(Literals, NoLocale) {
  std::locale old = std::locale::global(std::locale(std::locale::classic(), new Comma));
  std::string printed = print_double(1234567.5);
  auto read = read_double("0.25");
  std::locale::global(old);
  EXPECT_EQ(printed, "1234567.5");
  EXPECT_EQ(read, 0.25);
}

TEST(Literals, WholeTextOnly) {
  EXPECT_EQ(read_int("-12"), -12);
  EXPECT_EQ(read_int("12 "), std::nullopt);
  EXPECT_EQ(read_int(""), std::nullopt);
  EXPECT_EQ(read_int("9223372036854775808"), std::nullopt);
  EXPECT_EQ(read_double("1.5x"), std::nullopt);
  EXPECT_EQ(from_hex("0x0"), std::nullopt);
  EXPECT_EQ(from_hex("0x0g"), std::nullopt);
}

TEST(Nearest, OffersOnlySlips) {
  auto hint = [](std::string_view word) {
    Nearest nearest(word);
    for (const char* c : {"softmax", "log_softmax", "add", "f32", "f16", "max"}) nearest.offer(c);
    return nearest.best();
  };
  EXPECT_EQ(hint("sofmax"), "softmax");
  EXPECT_EQ(hint("f23"), "f32");
  EXPECT_EQ(hint("ad"), "add");
  EXPECT_EQ(hint("convolution"), "");
  EXPECT_EQ(hint("x"), "");
  EXPECT_EQ(hint(std::string(100000, 'a')), "");
}

// ---- environment ----

TEST(Env, TableAccessorsAndWarnings) {
  for (const EnvVar& var : env_vars()) {
    EXPECT_EQ(var.name.substr(0, 6), "TENON_");
    EXPECT_EQ(var.meaning.back(), '.') << var.name;
  }
  unsetenv("TENON_ISA");
  EXPECT_EQ(env::isa(), "");
  setenv("TENON_ISA", "avx2", 1);
  EXPECT_EQ(env::isa(), "avx2");
  unsetenv("TENON_ISA");
  setenv("TENON_DUMPS", "fuse", 1);
  setenv("TENON_WHATEVER", "1", 1);
  EXPECT_THAT(env_warnings(),
              testing::UnorderedElementsAre(
                  HasSubstr("TENON_DUMPS is not a variable of Tenon, did you mean 'TENON_DUMP'?"),
                  testing::EndsWith("TENON_WHATEVER is not a variable of Tenon")));
  unsetenv("TENON_DUMPS");
  unsetenv("TENON_WHATEVER");
  EXPECT_TRUE(env_warnings().empty());
  for (const EnvVar& var : env_vars()) EXPECT_EQ(env_wrong(var, var.fallback), "") << var.name;
  setenv("TENON_ISA", "avx3", 1);
  setenv("TENON_CACHE_BYTES", "12K", 1);
  EXPECT_THAT(env_warnings(),
              testing::ElementsAre("TENON_ISA is 'avx3', none of sse2, avx2, avx512: it counts as unset"));
  unsetenv("TENON_ISA");
  unsetenv("TENON_CACHE_BYTES");
  EXPECT_TRUE(in_list("fuse,llvm", "llvm"));
  EXPECT_TRUE(in_list("all", "llvm"));
  EXPECT_FALSE(in_list("fuse,llvm", "ll"));
  EXPECT_FALSE(in_list("", ""));
}

// ---- hash ----

TEST(FunctionRef, CallsWhatItWasGiven) {
  int sum = 0;
  auto add = [&sum, times = 0](int n) mutable { return sum += n, ++times; };
  const FunctionRef<int(int)> ref = add;
  const FunctionRef<int(int)> copy = ref;  // copies the reference: both call `add` itself
  EXPECT_EQ(ref(3), 1);
  EXPECT_EQ(copy(4), 2);
  EXPECT_EQ(add(5), 3);
  EXPECT_EQ(sum, 12);
  const auto length = [](std::unique_ptr<std::string> text, size_t& place) { place = text->size(); };
  size_t place = 0;
  const FunctionRef<void(std::unique_ptr<std::string>, size_t&)> measure = length;
  measure(std::make_unique<std::string>("four"), place);
  EXPECT_EQ(place, 4u);
}

// readelf --notes prints the same digits.
TEST(BuildId, IsTheHashOfTheLinker) {
  EXPECT_TRUE(build_id().size() >= 16 &&
              build_id().find_first_not_of("0123456789abcdef") == std::string::npos)
      << build_id();
  const std::string command = std::string("readelf --notes ") + kInternalLibrary;
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_TRUE(pipe);
  std::string notes(1 << 16, 0);
  notes.resize(fread(notes.data(), 1, notes.size(), pipe));
  pclose(pipe);
  EXPECT_THAT(notes, HasSubstr("Build ID: " + build_id() + "\n"));
}

TEST(Cpu, ListsWhatItHas) {
  EXPECT_EQ(cpu_lacks(cpu_has()), "");
  EXPECT_EQ(cpu_lacks("x86-64,no-such"), "no-such");
}

// The value for the empty input is in the algorithm's specification.
TEST(Hash, IsXxh3) {
  EXPECT_EQ(hash_bytes(""), 0x2D06800538D394C2u);
  EXPECT_EQ(hash128("").hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, PiecesAreSeparate) {
  auto of = [](std::string_view a, std::string_view b) { return Hasher().text(a).text(b).finish(); };
  EXPECT_EQ(of("ab", "c"), of("ab", "c"));
  EXPECT_NE(of("ab", "c"), of("a", "bc"));
  EXPECT_NE(Hasher().number(1).finish(), Hasher().number(2).finish());
}

// ---- log ----

TEST(Log, NothingWithoutALoggerOrATopic) {
  testing::internal::CaptureStderr();
  log("cache", "one");
  setenv("TENON_LOG", "fuse,cache", 1);
  EXPECT_TRUE(log_wanted("cache"));
  EXPECT_FALSE(log_wanted("plan"));
  log("cache", "two");
  log("plan", "three");
  unsetenv("TENON_LOG");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "tenon cache: two\n");
}

TEST(Log, TheHostsLoggerGetsEverything) {
  std::vector<std::string> seen;
  set_logger(
      [](void* user, const char* topic, const char* message) {
        static_cast<std::vector<std::string>*>(user)->push_back(std::string(topic) + "|" + message);
      },
      &seen);
  EXPECT_TRUE(log_wanted("plan"));
  testing::internal::CaptureStderr();
  log("plan", "three");
  EXPECT_FALSE(dump_wanted("fuse"));
  setenv("TENON_DUMP", "fuse", 1);
  EXPECT_TRUE(dump_wanted("fuse"));
  unsetenv("TENON_DUMP");
  dump("fuse", "text");
  set_logger(nullptr, nullptr);
  log("plan", "four");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(seen, ElementsAre("plan|three", "dump.fuse|text"));
}

// ---- immortal ----

struct Counted {
  explicit Counted(int v = 0) : value(v) { ++made; }
  static inline int made = 0;
  int value;
};

TEST(Immortal, OneObjectPerTypeAndArguments) {
  Counted &one = immortal<Counted>(), &seven = immortal<Counted, 7>();
  EXPECT_EQ(&immortal<Counted>(), &one);
  EXPECT_NE(&seven, &one);
  EXPECT_EQ(seven.value, 7);
  EXPECT_EQ(Counted::made, 2);
}

}  // namespace
}  // namespace tenon
