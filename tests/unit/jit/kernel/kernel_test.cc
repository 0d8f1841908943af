// The kernel IR beyond the golden texts: bad texts of every kind, kernels that no text can express, identity, sizes, and math
// expansion of rows that this file registers.
#include "jit/kernel/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "jit/analysis/prefetch.h"
#include "jit/kernel/builder.h"
#include "jit/kernel/walk.h"
#include "src/ops/rows/names.h"
#include "src/ops/rules/rules.h"
#include "tests/support/kernel_gen.h"

namespace tenon::jit {
namespace {

using testing::HasSubstr;

// A kernel over N with this body, a float input x and an output y.
std::string with_body(const std::string& body) {
  return "kernel @k(N; in %x: f32, out %y: f32) {\npar %i in N {\n" + body + "\n}\n}\n";
}

TEST(KernelText, ErrorsSayWhereAndWhat) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "1:1: expected 'kernel', found the end"},
      {"graph @x", "1:1: expected 'kernel', found 'graph'"},
      {"kernel x()", "1:8: expected '@', found 'x'"},
      {"kernel @()", "1:9: expected a kernel name, found '('"},
      {"kernel @k(N, N; ) {", "1:14: size N is named twice"},
      {"kernel @k(; in %x: f32, out %x: f32) {", "1:29: buffer %x is named twice"},
      {"kernel @k(; in %x: f33) {", "1:20: unknown dtype f33"},
      {"kernel @k(; inn %x: f32) {", "1:13: expected in, out or local, found 'inn'"},
      {"kernel @k(; local %x: f32) {", "1:26: expected '[', found ')'"},
      {"kernel @k(; local %x: f32[M]) {", "1:27: unknown size M"},
      {"kernel @k() { par {", "1:20: expected a statement, found the end"},
      {"kernel @k() { } }", "1:17: expected the end of the text, found '}'"},
      {with_body("%v = load %z[0]"), "3:11: unknown buffer %z"},
      {with_body("%v = load %x[%j]"), "3:14: %j is not defined yet"},
      {with_body("%v = load %x[N*N]"), "3:16: expected a value such as %x, found 'N'"},
      {with_body("%v = load %x[M]"), "3:14: unknown size M"},
      {with_body("%v = load %x[9223372036854775808]"), "3:14: factor out of range"},
      {with_body("%v = load %x[1 2]"), "3:16: expected ']', found '2'"},
      {with_body("%i = const.f32 1"), "3:1: %i is defined twice"},
      {with_body("%a, %b = const.f32 1"), "3:10: 1 results for 2 names"},
      {with_body("%a = const.f32 x"), "3:16: expected a number, found 'x'"},
      {with_body("%a = const.f128 1"), "3:6: unknown dtype f128"},
      {with_body("%a = const.i64 99999999999999999999"), "3:16: integer"},
      {with_body("%a = const.f32 1\n%b = add %a"), "4:6: add(f32): takes 2 operands"},
      {with_body("%a = const.f32 1\n%b = const.f64 1\n%c = add %a, %b"), "5:6: "},
      {with_body("%a = const.f32 1\n%c = bit_and %a, %a"), "4:6: "},
      {with_body("%a = const.f32 1\n%c = cast %a"), "4:6: cast(f32): not a map row without attributes"},
      {with_body("%a = const.f32 1\n%c = sum %a"), "4:6: sum(f32): not a map row without attributes"},
      {with_body("%a = exq %i"), "3:6: unknown op exq"},
      {with_body("%a = size M"), "3:11: unknown size M"},
      {with_body("store %y[0]"), "4:1: expected ',', found '}'"},
      {with_body("for simd %j in N, %k in N { }"), "3:19: only the last axis can be simd"},
      {with_body("for %j in N unroll 1 { }"), "3:20: unroll is from 2 to 64"},
      {with_body("for %j in N unroll 1000 { }"), "3:20: unroll is from 2 to 64"},
      {with_body("%r = reduce add %j in N { }"), "a reduce ends with a yield"},
      {with_body("%r = reduce add %j in N { yield %r }"), "3:33: %r is not defined yet"},
      {with_body("for %j in N { yield %i }"), "3:15: expected a statement, found 'yield'"},
      {with_body("%r, %s = reduce add, add %j in N { %v = load %x[0] yield %v }"),
       "3:10: 1 results for 2 names"},
      {with_body("100% \x01"), "3:1: expected a statement"},
  };
  for (const auto& [text, message] : cases) {
    Result<Kernel> kernel = parse_kernel(text);
    ASSERT_FALSE(kernel.ok()) << text;
    EXPECT_EQ(kernel.status().code(), tenon::Code::invalid);
    EXPECT_THAT(kernel.status().message(), HasSubstr(message)) << text;
  }
}

TEST(KernelText, DeepNestingIsRefused) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "for %j" + std::to_string(i) + " in N {\n";
  EXPECT_THAT(parse_kernel(with_body(deep)).status().message(), HasSubstr("loops nested deeper than 64"));
}

// Changes random bytes of valid texts: a text that parses also prints, reparses and verifies without a crash.
TEST(KernelText, AnyBytesAreAnswered) {
  std::mt19937_64 random(1);
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  int parsed = 0, valid = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    static std::string base;
    if (seed % 40 == 0) base = print(random_kernel(seed).kernel);
    std::string text = base;
    for (size_t changes = 1 + below(2); changes > 0; --changes) {
      size_t at = below(text.size());
      switch (below(4)) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + below(12)); break;
        case 2: text.insert(at, text.substr(below(text.size()), below(20))); break;
        case 3: text[at] = "%*{}[]0123456789-+,;."[below(21)]; break;
      }
    }
    Result<Kernel> kernel = parse_kernel(text);
    if (!kernel.ok()) continue;
    ++parsed;
    valid += verify(*kernel).ok();
    std::string printed = print(*kernel);
    Result<Kernel> again = parse_kernel(printed);
    ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << printed;
    ASSERT_EQ(print(*again), printed);
  }
  EXPECT_GT(parsed, 100);
  EXPECT_GT(valid, 20);
}

TEST(KernelText, NamesAreMadeUnique) {
  Kernel k;
  k.name = "no name!";
  k.sizes = {"N"};
  k.buffers = {{Buffer::Role::out, DType::f32, "y", {}}};
  Stmt par;
  par.kind = Stmt::Kind::par;
  for (const char* name : {"v", "v", "", "2", "7 up", "v.1"}) {
    Stmt s;
    s.kind = Stmt::Kind::constant;
    s.literal = Scalar::of(1.0);
    s.result = k.add_ref(DType::f32, name);
    par.body.push_back(s);
  }
  k.body.push_back(par);
  std::string text = print(k);
  for (const char* name : {"@no_name_(", "%v =", "%v.1 =", "%2 =", "%v2 =", "%v7_up =", "%v.1.5 ="})
    EXPECT_THAT(text, HasSubstr(name));
  Result<Kernel> again = parse_kernel(text);
  ASSERT_TRUE(again.ok()) << again.status().message() << text;
  EXPECT_EQ(print(*again), text);
}

TEST(KernelIdentity, IgnoresNamesOnly) {
  auto id = [](const std::string& text) {
    Result<Kernel> k = parse_kernel(text);
    EXPECT_TRUE(k.ok()) << k.status().message();
    return identity(*k);
  };
  const std::string text =
      "kernel @a(N; in %x: f32, out %y: f32) { par %i in N { %v = load %x[%i] store %y[%i], %v } }";
  const std::string named =
      "kernel @b(K; in %p: f32, out %q: f32) { par %j in K { %w = load %p[%j] store %q[%j], %w } }";
  const std::string simd =
      "kernel @a(N; in %x: f32, out %y: f32) { par simd %i in N { %v = load %x[%i] store %y[%i], %v } }";
  const std::string two =
      "kernel @a(N; in %x: f32, out %y: f32) { par %i in N { %v = load %x[2*%i] store %y[%i], %v } }";
  const std::string type =
      "kernel @a(N; in %x: f16, out %y: f32) { par %i in N { %v = load %x[%i] store %y[%i], %v } }";
  EXPECT_EQ(id(text), id(named));
  EXPECT_NE(id(text), id(simd));
  EXPECT_NE(id(text), id(two));
  EXPECT_NE(id(text), id(type));
}

TEST(KernelSizes, ParIterationsAndScratch) {
  Result<Kernel> k = parse_kernel(
      "kernel @k(N, M; out %y: f32; local %a: f32[2*M], local %b: bool[65], local %c: f64[N]) "
      "{ par %i in N, %j in 3*M { } }");
  ASSERT_TRUE(k.ok()) << k.status().message();
  int64_t sizes[] = {5, 7};
  EXPECT_EQ(par_iterations(*k, sizes, 16), 105);
  k->body[0].simd = true;
  EXPECT_EQ(par_iterations(*k, sizes, 16), 10);
  EXPECT_EQ(par_iterations(*k, sizes, 4), 30);
  EXPECT_EQ(scratch_bytes(*k, sizes), 64 + 128 + 64);
  int64_t none[] = {0, 7};
  EXPECT_EQ(par_iterations(*k, none, 16), 0);
  k->body[0].axes.clear();
  EXPECT_EQ(par_iterations(*k, sizes, 16), 1);
  k = parse_kernel("kernel @t(N, M) { par %i in N, %t in 3*M by 4 { for %j in %t { } } }");
  ASSERT_TRUE(k.ok()) << k.status().message();
  EXPECT_EQ(par_iterations(*k, sizes, 16), 5 * 6);
}

// Damage that no text can express: one field of a valid kernel gets a wrong value.
TEST(KernelVerify, DamageIsFound) {
  auto damaged = [](auto damage) {
    Result<Kernel> k = parse_kernel(R"(kernel @k(N; in %x: f32, out %y: f32; local %t: f32[N]) {
  par %i in N {
    %v = load %x[%i]
    %s = reduce add simd %j in N {
      %w = load %x[%j]
      yield %w
    }
    %q = add %v, %s
    %c = cast.bf16 %q
    store %y[%i], %c
  }
})");
    EXPECT_EQ(verify(*k).message(), "");
    damage(*k, k->body[0].body);
    print(*k);
    return verify(*k).message();
  };
  EXPECT_THAT(damaged([](Kernel& k, Block&) { k.name = "a b"; }),
              HasSubstr("the kernel's name is not valid"));
  EXPECT_THAT(damaged([](Kernel& k, Block&) { k.sizes = {"N", "N"}; }),
              HasSubstr("the name of size 'N' is not valid or occurs twice"));
  EXPECT_THAT(damaged([](Kernel& k, Block&) { k.buffers[1].name = "x"; }),
              HasSubstr("the name of buffer 'x' is not valid or occurs twice"));
  EXPECT_THAT(damaged([](Kernel& k, Block&) { std::swap(k.buffers[1], k.buffers[2]); }),
              HasSubstr("buffer %y after a local"));
  EXPECT_THAT(damaged([](Kernel& k, Block&) { k.buffers[0].length = {3}; }),
              HasSubstr("has a length but is no local"));
  EXPECT_THAT(damaged([](Kernel& k, Block&) { k.body[0].simd = true; }),
              HasSubstr("local %t in a kernel whose par is simd"));
  EXPECT_THAT(damaged([](Kernel& k, Block&) { k.names.pop_back(); }), HasSubstr("as many names as types"));
  EXPECT_THAT(damaged([](Kernel& k, Block&) { k.types[1] = DType::f16; }), HasSubstr("a value of type f16"));
  EXPECT_THAT(damaged([](Kernel& k, Block&) { k.body.clear(); }), HasSubstr("the body is one par statement"));
  EXPECT_THAT(damaged([](Kernel& k, Block&) { k.body.push_back(k.body[0]); }),
              HasSubstr("the body is one par statement"));
  EXPECT_THAT(damaged([](Kernel& k, Block& b) {
                Stmt s = b[0];
                k.body = {s};
              }),
              HasSubstr("the body is one par statement"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[0].result = kNoRef; }), HasSubstr("defines no value"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[2].result = b[0].result; }),
              HasSubstr("defines a value twice"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[2].args = {99, b[0].result}; }),
              HasSubstr("uses a value that is not defined yet"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { std::swap(b[0], b[2]); }),
              HasSubstr("uses a value that is not defined yet"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[2].args.pop_back(); }), HasSubstr("takes 2 operands"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[2].op = 9999; }), HasSubstr("unknown row"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[2].type = DType::f64; }),
              HasSubstr("the result is of type f32"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[0].buffer = 3; }), HasSubstr("names no buffer"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[0].address = {{1, 5, kNoRef}}; }),
              HasSubstr("the address names no size"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[1].axes[0].extent.size = 1; }),
              HasSubstr("an extent names no size"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[1].results.clear(); }),
              HasSubstr("1 rows, 1 yields, 0 results"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[1].combine = {ops::sub}; }),
              HasSubstr("sub does not fold f32"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[1].combine = {9999}; }), HasSubstr("unknown row"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[2].body.push_back(b[0]); }),
              HasSubstr("has a body but is no loop"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[2].yields = {b[0].result}; }),
              HasSubstr("has yields but is no reduce"));
  EXPECT_THAT(damaged([](Kernel& k, Block& b) { k.types[b[1].axes[0].var] = DType::i32; }),
              HasSubstr("a loop variable of type i32"));
  EXPECT_THAT(damaged([](Kernel& k, Block& b) { k.types[b[1].results[0]] = DType::i32; }),
              HasSubstr("the result is of type f32"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) { b[3].args.clear(); }), HasSubstr("takes 1 operands, got 0"));
  EXPECT_THAT(damaged([](Kernel&, Block& b) {
                for (int i = 0; i < 70; ++i) b[1].body = {Stmt(b[1])};
              }),
              HasSubstr("nested deeper than 64"));
}

// Registers a row that is defined by a math body.
OpId math_row(const char* name, uint32_t (*math)(MathBuilder&, std::span<const uint32_t>)) {
  Op row{.name = name,
         .kind = tenon::Kind::map,
         .arity = 1,
         .shape = shapes::same,
         .type = types::floating,
         .math = math,
         .eval = [](const double* x) { return x[0]; },
         .doc = "test"};
  Result<OpId> id = register_op(row);
  EXPECT_TRUE(id.ok()) << id.status().message();
  return id.ok() ? *id : 0;
}

TEST(ExpandMath, SharesConstantsAndKeepsNames) {
  static OpId inner = math_row("test_inner", [](MathBuilder& b, std::span<const uint32_t> a) {
    DType t = b.type_of(a[0]);
    return b.op(ops::fma, {a[0], b.constant(t, 2), b.constant(t, 1)});
  });
  math_row("test_outer", [](MathBuilder& b, std::span<const uint32_t> a) {
    DType t = b.type_of(a[0]);
    uint32_t once = b.op(inner, {a[0]});
    uint32_t bits = b.bitcast(b.op(ops::add, {once, b.constant(t, 1)}), DType::i32);
    return b.bitcast(b.op(ops::bit_and, {bits, b.constant_int(DType::i32, -2)}), t);
  });
  math_row("test_same", [](MathBuilder&, std::span<const uint32_t> a) { return a[0]; });
  Result<Kernel> k = parse_kernel(R"(kernel @k(N; in %x: f32, out %y: f32) {
  par %i in N {
    %v = load %x[%i]
    %a = test_inner %v
    %s = reduce add simd %j in N {
      %w = load %x[%j]
      %b = test_outer %w
      %c = test_same %b
      yield %c
    }
    %d = test_same %s
    %e = mul %a, %d
    store %y[%i], %e
  }
}
)");
  ASSERT_TRUE(k.ok()) << k.status().message();
  expand_math(*k);
  EXPECT_EQ(verify(*k).message(), "");
  EXPECT_EQ(print(*k), R"(kernel @k(N; in %x: f32, out %y: f32) {
  par %i in N {
    %10 = const.f32 2.0
    %11 = const.f32 1.0
    %16 = const.i32 -2
    %v = load %x[%i]
    %a = fma %v, %10, %11
    %s = reduce add simd %j in N {
      %w = load %x[%j]
      %13 = fma %w, %10, %11
      %14 = add %13, %11
      %15 = bitcast.i32 %14
      %17 = bit_and %15, %16
      %b = bitcast.f32 %17
      yield %b
    }
    %e = mul %a, %s
    store %y[%i], %e
  }
}
)");
}

// The prefetches of a kernel as text: "x from 1" for a prefetch of the next row in pass 1, "y of 1" for one of this row. Passes count
// from 0.
std::string prefetched(const std::string& text) {
  auto k = parse_kernel(text);
  EXPECT_TRUE(k.ok()) << k.status().message();
  if (!k.ok()) return "";
  std::string all;
  for (const Prefetch& p : prefetches(*k)) {
    int pass = 0;
    const Block& passes = k->body[0].body;
    for (const Stmt& s : passes[0].kind == Stmt::Kind::loop && !passes[0].simd ? passes[0].body : passes) {
      if (&s == p.loop) break;
      pass += !s.axes.empty();
    }
    EXPECT_EQ(p.address.back().var, p.loop->axes[0].var);
    all += (all.empty() ? "" : ", ") + k->buffers[p.buffer].name + (p.step.empty() ? " of " : " from ") +
           std::to_string(pass);
  }
  return all;
}

TEST(KernelWalk, RewriteBuildsStatementsInPlaceOfOthers) {
  auto k = parse_kernel(
      "kernel @k(N; in %x: f32, out %y: f32) {\npar %i in N { for simd %j in N {\n"
      "%v = load %x[%j]  %e = exp %v  store %y[N*%i + %j], %e } }\n}\n");
  ASSERT_TRUE(k.ok()) << k.status().message();
  std::string seen;
  each_stmt(k->body, [&](const Stmt& s, const Around& around) {
    seen += " " + std::to_string(around.depth) + (around.simd ? "simd" : "");
    EXPECT_EQ(around.depth == 0, around.loop == nullptr) << print_line(*k, s);
  });
  EXPECT_EQ(seen, " 0 1 2simd 2simd 2simd");
  std::map<Ref, Ref> renamed;
  rewrite(k->body, [&](Stmt& s, Block& out) {
    KernelBuilder b(*k, out);
    if (s.kind == Stmt::Kind::op)
      renamed[s.result] = b.op(ops::gt, {b.constant(DType::f32, Scalar::of(1.0)), s.args[0]});
    else
      out.push_back(std::move(s));
  });
  replace_reads(k->body[0], renamed);
  const Stmt* store = find_stmt(k->body, [](const Stmt& s) { return s.kind == Stmt::Kind::store; });
  const Stmt* gt = definition(k->body, store->args[0]);
  ASSERT_TRUE(gt);
  EXPECT_EQ(gt->type, DType::b8);
  EXPECT_THAT(verify(*k).message(), HasSubstr("stores bool into a buffer of f32"));
}

TEST(Prefetch, RowsAreAskedForByThePassesInTheMiddle) {
  const std::string head = "kernel @k(N, M; in %x: f32, in %w: f32, out %y: f32) {\npar %i in N {\n";
  const std::string first = "%s = reduce add simd %j in M { %v = load %x[M*%i + %j]  yield %v }\n";
  const std::string light =
      "%q = reduce add simd %k in M { %u = load %x[M*%i + %k]  %b = load %w[%k]  %d = mul %u, %b  yield %d "
      "}\n";
  std::string middle = light;
  for (int i = 0; i < 10; ++i)
    middle.insert(middle.find(" yield"), "  %d" + std::to_string(i) + " = mul %d, %b ");
  const std::string last = "for simd %l in M { store %y[M*%i + %l], %s }\n}\n}\n";
  EXPECT_EQ(prefetched(head + first + middle + last), "x from 1, y of 1");
  EXPECT_EQ(prefetched(head + first + light + last), "y of 1");
  EXPECT_EQ(prefetched(head + first + last), "y of 0");
  // prefetches() leaves out: one pass; steps of another size; a row that every iteration reads; columns; another length.
  EXPECT_EQ(
      prefetched(head + "for simd %l in M { %v = load %x[M*%i + %l]  store %y[M*%i + %l], %v }\n}\n}\n"), "");
  EXPECT_EQ(prefetched(head + "%s = reduce add simd %j in M { %v = load %x[M*%i + 2*%j]  yield %v }\n" +
                       "for simd %l in M { store %y[M*%l + %i], %s }\n}\n}\n"),
            "");
  EXPECT_EQ(prefetched(head + "%s = reduce add simd %j in M { %v = load %x[%j]  yield %v }\n" + last),
            "y of 0");
  EXPECT_EQ(prefetched(head + first + "for simd %l in N { store %y[N*%i + %l], %s }\n}\n}\n"), "");
  // A loop over the rows of a tile.
  const std::string blocks = head.substr(0, head.find("par")) + "par %t in N by 32 { for %i in %t {\n";
  EXPECT_EQ(prefetched(blocks + first + middle + last + "}\n"), "x from 1, y of 1");
}

}  // namespace
}  // namespace tenon::jit
