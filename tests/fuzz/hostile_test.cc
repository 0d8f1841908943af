// Hostile inputs: text that no framework writes, and sizes that no tensor has. Each case must get its status and message within a
// second of CPU time and 64 MiB, on a stack of 8 MiB. Each case runs in its own child process, so that its memory peak is measured
// alone and a crash fails only one case. The cases come from lists of inputs that crashed other compilers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>

#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/ops/graph_body.h"
#include "src/runtime/program.h"
#include "tests/support/sanitized.h"

namespace tenon {
namespace {

// ---- what a case does ----

Result<Graph> read(const std::string& text) {
  TENON_ASSIGN(Graph graph, parse_graph(text));
  TENON_TRY(verify(graph));
  return graph;
}

std::function<Status()> reading(std::string text) {
  return [text = std::move(text)] { return read(text).status(); };
}

std::function<Status()> making(std::string text) {
  return [text = std::move(text)]() -> Status {
    TENON_ASSIGN(const Graph graph, read(text));
    return Program::make(graph, {}, {}).status();
  };
}

using Shapes = std::vector<std::vector<int64_t>>;

// Runs a program. `symbols` are the values of the inputs that define a symbol, in order.
std::function<Status()> running(std::string text, Shapes in, Shapes out, std::vector<int64_t> symbols = {}) {
  return [=]() -> Status {
    TENON_ASSIGN(const Graph graph, read(text));
    TENON_ASSIGN(auto program, Program::make(graph, {}, {}));
    std::vector<std::unique_ptr<int64_t[]>> storage;
    auto tensors = [&](const Shapes& shapes, auto type_of) {
      std::vector<Tensor> list;
      for (size_t i = 0; i < shapes.size(); ++i) {
        int64_t elements = 1;
        for (int64_t n : shapes[i])
          if (__builtin_mul_overflow(elements, n, &elements) || elements < 0 || elements > 1 << 24)
            elements = 0;
        // A tensor that is too large to exist points to a few bytes. The sanitizer finds reads beyond them.
        storage.emplace_back(new int64_t[static_cast<size_t>(elements) + 1]);
        list.push_back({storage.back().get(), type_of(i), shapes[i], {}});
      }
      return list;
    };
    std::vector<Tensor> inputs =
        tensors(in, [&](size_t i) { return graph.type(graph.inputs[i].value).dtype; });
    for (size_t i = 0, s = 0; i < inputs.size(); ++i)
      if (graph.inputs[i].symbol) *static_cast<int64_t*>(inputs[i].data) = symbols.at(s++);
    const std::vector<Tensor> outputs =
        tensors(out, [&](size_t i) { return graph.type(graph.outputs[i].value).dtype; });
    return program->run(inputs, outputs);
  };
}

// ---- running it ----

struct Outcome {
  int end = 0;  // the status of waitpid
  Code code = Code::ok;
  std::string message;
  double seconds = 0;     // CPU time
  int64_t kilobytes = 0;  // peak memory
};

Outcome in_child(const std::function<Status()>& body) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit stack{8 << 20, 8 << 20}, no_core{0, 0};
    setrlimit(RLIMIT_STACK, &stack);
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(120);
    Status status;
    try {
      status = body();
    } catch (const std::exception& e) {
      status = Status(Code::internal, std::string("an exception: ") + e.what());
    }
    const std::string text = std::string(1, static_cast<char>(status.code())) + status.message();
    size_t at = 0;
    while (at < text.size()) {
      const ssize_t n = write(ends[1], text.data() + at, text.size() - at);
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char block[4096];
  for (ssize_t n; (n = ::read(ends[0], block, sizeof block)) > 0;) text.append(block, static_cast<size_t>(n));
  close(ends[0]);
  Outcome outcome;
  rusage used{};
  EXPECT_EQ(wait4(pid, &outcome.end, 0, &used), pid);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  outcome.seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  outcome.kilobytes = used.ru_maxrss;
  if (!text.empty()) outcome.code = static_cast<Code>(text[0]), outcome.message = text.substr(1);
  return outcome;
}

struct Case {
  std::string name;
  std::function<Status()> body;
  Code code;
  std::string says;    // a part of the message
  double seconds = 1;  // limit of CPU time
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// ---- texts ----

std::string graph(const std::string& inputs, const std::string& body) {
  return "graph @g(" + inputs + ") {\n" + body + "\n}\n";
}
// Registers ops whose bodies use the previous op once or twice, and returns the name of the last one.
Result<std::string> register_nested(int count, bool twice) {
  std::string inner = "relu";
  for (int i = 0; i < count; ++i) {
    const std::string name = "hostile_" + std::to_string(i);
    const std::string body = twice ? "  %a = " + inner + "(%x)\n  %b = " + inner + "(%a)\n  return %b"
                                   : "  %a = " + inner + "(%x)\n  return %a";
    TENON_TRY(register_graph_body(name, 1, "", graph("%x: f32[N]", body), "d").status());
    inner = name;
  }
  return inner;
}
std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}
// A chain of these ops, repeated; @ stands for the operand.
std::string chain(int length, const std::vector<std::string>& ops) {
  std::string body, last = "x";
  for (int i = 0; i < length; ++i) {
    std::string line = ops[static_cast<size_t>(i) % ops.size()];
    line.replace(line.find('@'), 1, "%" + last);
    last = "v" + std::to_string(i);
    body += "  %" + last + " = " + line + "\n";
  }
  return graph("%x: f32[4,4]", body + "  return %" + last);
}
std::string conv(const std::string& attrs) {
  return graph("%x: f32[1,1,8,8], %w: f32[1,1,3,3]",
               "  %y = convolution(%x, %w){" + attrs + "}\n  return %y");
}
std::string pool(const std::string& attrs) {
  return graph("%x: f32[1,1,8,8]", "  %y = max_pool(%x){" + attrs + "}\n  return %y");
}
std::string sum_of_symbols(int lists, int symbols) {
  std::string text;
  for (int l = 0; l < lists; ++l) {
    text += l ? "," : "";
    for (int s = 0; s < symbols; ++s) text += (s ? "+A" : "A") + std::to_string(l) + "_" + std::to_string(s);
  }
  return text;
}

const std::string kMost = "9223372036854775807";

std::vector<Case> cases() {
  std::vector<Case> all;
  auto add = [&](std::string name, std::function<Status()> body, Code code, std::string says,
                 double seconds = 1) {
    all.push_back({std::move(name), std::move(body), code, std::move(says), seconds});
  };
  const Code ok = Code::ok, invalid = Code::invalid, unsupported = Code::unsupported,
             environment = Code::environment;
  auto relu = [](const std::string& type) { return graph("%x: " + type, "  %y = relu(%x)\n  return %y"); };

  // Sizes and their products.
  add("BytesOverflow", reading(relu("f32[4611686018427387904,4611686018427387904]")), invalid,
      "more bytes than 64 bits can count");
  add("BytesOverflowByItem", reading(relu("f64[2305843009213693952]")), invalid,
      "more bytes than 64 bits can count");
  add("HugeBesideZero",
      running(relu("f32[4611686018427387904,4611686018427387904,0]"),
              {{int64_t{1} << 62, int64_t{1} << 62, 0}}, {{int64_t{1} << 62, int64_t{1} << 62, 0}}),
      ok, "");
  add("HugeSymbolsBesideZero",
      running(relu("f32[N,M,0]"), {{int64_t{1} << 40, int64_t{1} << 40, 0}},
              {{int64_t{1} << 40, int64_t{1} << 40, 0}}),
      ok, "");
  add("HugeRowsReduced",
      running(graph("%x: f32[N,M,0]", "  %y = sum(%x){axes=[0,1]}\n  return %y"),
              {{int64_t{1} << 40, int64_t{1} << 40, 0}}, {{0}}),
      ok, "");
  for (const char* text : {"relu(%x)", "softmax(%x){axis=1}", "sum(%x){axes=[0,1]}",
                           "transpose(%x){perm=[2,1,0]}", "matmul(%x, %x)"}) {
    const int64_t far = int64_t{1} << 40;
    const bool sum = text[1] == 'u';
    if (text[0] == 'm')
      add("HugeBesideZeroAtBind_matmul",
          running(graph("%x: f32[N,M,M]", "  %y = matmul(%x, %x)\n  return %y"), {{0, far, far}},
                  {{0, far, far}}),
          ok, "");
    else
      add("HugeBesideZeroAtBind_" + std::string(text, std::string(text).find('(')),
          running(graph("%x: f32[N,M,K]", "  %y = " + std::string(text) + "\n  return %y"), {{far, far, 0}},
                  {sum              ? std::vector<int64_t>{0}
                   : text[0] == 't' ? std::vector<int64_t>{0, far, far}
                                    : std::vector<int64_t>{far, far, 0}}),
          ok, "");
  }
  add("SizeOfSymbolsOverflows",
      running(relu("f32[N,M]"), {{int64_t{1} << 40, int64_t{1} << 40}},
              {{int64_t{1} << 40, int64_t{1} << 40}}),
      invalid, "more bytes than 64 bits can count");
  add("NegativeSize", reading(relu("f32[-1]")), invalid, "negative size");
  add("LowestSize", reading(relu("f32[-9223372036854775808]")), invalid, "beyond 64 bits");
  add("SizeBeyond64Bits", reading(relu("f32[18446744073709551615]")), invalid, "beyond 64 bits");
  add("Rank17", reading(relu("f32[" + repeated("1,", 16) + "1]")), invalid, "rank 17 is above 16");
  add("Rank65", reading(relu("f32[" + repeated("1,", 64) + "1]")), invalid, "rank 65 is above 16");
  add("RankOfAMillion", reading(relu("f32[" + repeated("1,", rounds(1 << 20)) + "1]")), invalid,
      "is above 16");
  add("StridesReachTooFar",
      running(graph("%x: f32[4,4] strides=[" + kMost + ",1]", "  %y = relu(%x)\n  return %y"), {{4, 4}},
              {{4, 4}}),
      invalid, "reach farther than any memory");
  add("SymbolTimesStride",
      running(graph("%x: f32[N,4] strides=[N*4611686018427387904,1]", "  %y = relu(%x)\n  return %y"),
              {{4, 4}}, {{4, 4}}),
      invalid, "64 bits");
  add("ReshapeOverflows",
      reading(graph("%x: f32[0]",
                    "  %y = reshape(%x){shape=[4611686018427387904,4611686018427387904,0]}\n  return %y")),
      ok, "");
  add("ExpandOverflows",
      reading(graph("%x: f32[1]", "  %y = expand(%x){shape=[4611686018427387904,8]}\n  return %y")), invalid,
      "64 bits");
  add("LargerThanMemory",
      running(
          graph("%x: f32[N,1], %w: f32[1,N]", "  %h = matmul(%x, %w)\n  %y = sum(%h){axes=[]}\n  return %y"),
          {{1 << 23, 1}, {1, 1 << 23}}, {{}}),
      invalid, "more than any memory");
  add("ManyLargerThanMemory",
      running(
          graph("%x: f32[N,1], %w: f32[1,N]",
                "  %a = matmul(%x, %w)\n  %b = matmul(%a, %a)\n  %c = matmul(%b, %a)\n  %d = matmul(%c, %b)\n"
                "  %e = matmul(%d, %c)\n  %y = sum(%e){axes=[]}\n  return %y"),
          {{1 << 22, 1}, {1, 1 << 22}}, {{}}),
      invalid, "more than any memory");
  if (!kSanitized)  // a sanitizer's allocator would end the process
    add(
        "MoreMemoryThanThereIs",
        [run = running(graph("%x: f32[N,1], %w: f32[1,N]",
                             "  %h = matmul(%x, %w)\n  %y = sum(%h){axes=[]}\n  return %y"),
                       {{1 << 20, 1}, {1, 1 << 20}}, {{}})] {
          const rlimit space{rlim_t{64} << 30, rlim_t{64} << 30};
          setrlimit(RLIMIT_AS, &space);
          return run();
        },
        environment, "bytes: out of memory");

  // Facts about symbols, and their values at run time.
  const std::string assumes = "  assume N in [100000000, inf]\n";
  add("FactBroken",
      running(graph("%x: f32[N,4]",
                    assumes + "  %y = slice(%x){axis=0, start=90000000, end=90000004}\n  return %y"),
              {{4, 4}}, {{4, 4}}),
      invalid, "assumes N in [100000000, inf], but N is 4, axis 0 of %x");
  add("FactBrokenByValue",
      running(graph("%n: i64[] = N, %x: f32[4]",
                    "  assume N in [0, 8]\n  %y = full{value=1, shape=[N], dtype=f32}\n  return %y"),
              {{}, {4}}, {{9}}, {9}),
      invalid, "assumes N in [0, 8], but N is 9, the value of %n");
  add("FactOfManyBroken",
      running(graph("%x: f32[N,M]", "  assume M in [2, 4]\n  %y = relu(%x)\n  return %y"), {{1, 5}},
              {{1, 5}}),
      invalid, "assumes M in [2, 4], but M is 5");
  add("FactKept",
      running(graph("%x: f32[N,M]", "  assume M in [2, 4]\n  %y = relu(%x)\n  return %y"), {{1, 4}},
              {{1, 4}}),
      ok, "");
  add("FactOfNothing",
      running(graph("%x: f32[N]", "  assume K in [7, 9]\n  %y = relu(%x)\n  return %y"), {{3}}, {{3}}), ok,
      "");
  add("EmptyFact", reading(graph("%x: f32[N]", "  assume N in [5, 4]\n  %y = relu(%x)\n  return %y")),
      invalid, "empty range");
  add("NegativeAtBind",
      running(graph("%x: f32[N]", "  %y = slice(%x){axis=0, start=5, end=N}\n  return %y"), {{3}}, {{3}}),
      invalid, "");
  add("NegativeSymbol",
      running(graph("%n: i64[] = N", "  %y = full{value=1, shape=[N], dtype=f32}\n  return %y"), {{}}, {{0}},
              {-3}),
      invalid, "negative");
  add("NegativeShape", running(relu("f32[N]"), {{-3}}, {{-3}}), invalid, "negative");
  add("LowestShape", running(relu("f32[N]"), {{INT64_MIN}}, {{INT64_MIN}}), invalid, "negative");
  add("HighestShape", running(relu("f32[N]"), {{INT64_MAX}}, {{INT64_MAX}}), invalid, "");
  add("DividesByZero", reading(relu("f32[N//0]")), invalid, "divided by zero");
  add("RemainderOfZero", reading(relu("f32[N%0]")), invalid, "divided by zero");
  add("DividesByZeroAtBind",
      running(graph("%x: f32[N,M]", "  %y = full{value=1, shape=[N//M], dtype=f32}\n  return %y"), {{4, 0}},
              {{4}}),
      invalid, "N//M");
  add("RemainderOfZeroAtBind",
      running(graph("%x: f32[N,M]", "  %y = full{value=1, shape=[N%M], dtype=f32}\n  return %y"), {{4, 0}},
              {{4}}),
      invalid, "N%M");
  add("SizeOverflowsAtBind",
      running(graph("%n: i64[] = N", "  %y = full{value=1, shape=[N*N*N], dtype=f32}\n  return %y"), {{}},
              {{0}}, {int64_t{1} << 40}),
      invalid, "64 bits");

  // Attributes.
  add("AxisOutOfRange", reading(graph("%x: f32[4]", "  %y = softmax(%x){axis=1}\n  return %y")), invalid,
      "axis 1 is out of range");
  add("AxisFarOut", reading(graph("%x: f32[4]", "  %y = softmax(%x){axis=" + kMost + "}\n  return %y")),
      invalid, "out of range");
  add("AxisTwice", reading(graph("%x: f32[4,4]", "  %y = sum(%x){axes=[0,-2]}\n  return %y")), invalid,
      "twice");
  add("PermTwice", reading(graph("%x: f32[4,4]", "  %y = transpose(%x){perm=[0,0]}\n  return %y")), invalid,
      "no permutation");
  add("SliceStep0", reading(graph("%x: f32[4]", "  %y = slice(%x){axis=0, end=4, step=0}\n  return %y")),
      invalid, "step");
  add("SliceStepHuge",
      reading(graph("%x: f32[4]", "  %y = slice(%x){axis=0, end=4, step=" + kMost + "}\n  return %y")),
      unsupported, "step");
  add("SliceFarOut",
      reading(graph("%x: f32[4]",
                    "  %y = slice(%x){axis=0, start=" + kMost + ", end=" + kMost + "}\n  return %y")),
      invalid, "do not lie within");
  add("SizeBesideSize0", reading(graph("%x: f32[0]", "  %y = reshape(%x){shape=[-1,0]}\n  return %y")),
      invalid, "-1 beside a size of 0");
  add("PadOverflows",
      reading(graph("%x: f32[4]", "  %y = pad(%x){low=[" + kMost + "], high=[" + kMost + "]}\n  return %y")),
      invalid, "too large");
  add("PadLarge", reading(graph("%x: f32[4]", "  %y = pad(%x){low=[" + kMost + "], high=[0]}\n  return %y")),
      invalid, "");
  for (const auto& [name, zero] :
       {std::pair("Strides", "strides=[0,1]"), std::pair("Dilations", "dilations=[0,1]"),
        std::pair("Groups", "groups=0"), std::pair("Padding", "padding=[-1,0]")}) {
    std::string attrs = "strides=[1,1], padding=[0,0], padding_high=[0,0], dilations=[1,1], groups=1";
    const std::string key = std::string(zero).substr(0, std::string(zero).find('='));
    const size_t at = attrs.find(key + "="), end = attrs.find(", ", attrs.find_first_of("]1", at));
    attrs.replace(at, (end == attrs.npos ? attrs.size() : end) - at, zero);
    add(std::string("ConvolutionBad") + name, reading(conv(attrs)), invalid, "must be at least");
  }
  for (const char* name : {"strides", "padding", "padding_high", "dilations"}) {
    for (const std::string& value : {kMost, std::string("4611686018427387904"), std::string("2147483648")}) {
      auto attrs = [&](bool pooling) {
        std::string text = pooling ? "kernel=[3,3]" : "";
        for (const char* other : {"strides", "padding", "padding_high", "dilations"}) {
          const bool pads = std::string_view(other).starts_with("padding");
          text += (text.empty() ? "" : ", ") + std::string(other) + "=[" +
                  (other == std::string_view(name) ? value
                   : pads                          ? "0"
                                                   : "1") +
                  "," +
                  (other == std::string_view(name) ? value
                   : pads                          ? "0"
                                                   : "1") +
                  "]";
        }
        return text;
      };
      add(std::string("Convolution_") + name + value, making(conv(attrs(false))), unsupported,
          "must be at most 2147483647");
      add(std::string("Transposed_") + name + value, making(conv(attrs(false) + ", transposed=true")),
          unsupported, "must be at most 2147483647");
      add(std::string("Pool_") + name + value, making(pool(attrs(true))), unsupported,
          "must be at most 2147483647");
    }
  }
  add("PoolKernelHuge",
      making(pool("kernel=[" + kMost + ",1], strides=[1,1], padding=[0,0], padding_high=[0,0]")), unsupported,
      "must be at most");
  // The body pads to a size that no memory holds.
  add("PaddedTooLarge",
      making(graph("%x: f32[1,1,8,8,8], %w: f32[1,1,3,3,3]",
                   "  %y = convolution(%x, %w){strides=[2147483647,2147483647,2147483647], "
                   "padding=[2147483647,2147483647,2147483647], "
                   "padding_high=[2147483647,2147483647,2147483647], dilations=[1,1,1]}\n  return %y")),
      invalid, "64 bits");
  add("WindowsHuge",
      reading(graph("%x: f32[8]", "  %y = windows(%x){axes=[0], sizes=[1], strides=[" + kMost +
                                      "], dilations=[1]}\n  return %y")),
      unsupported, "at most");
  add("GroupNorm0", reading(graph("%x: f32[1,4,2]", "  %y = group_norm(%x){groups=0, eps=0.1}\n  return %y")),
      invalid, "groups must be at least 1");
  add("IntWhereSizeIs", reading(graph("%x: f32[4]", "  %y = sum(%x){axes=[N]}\n  return %y")), invalid,
      "must be constant");
  add("UnknownDtype", reading(relu("f33[4]")), invalid, "did you mean 'f32'");

  // Names and edges.
  add("Cycle", reading(graph("%x: f32[4]", "  %a = add(%x, %b)\n  %b = relu(%a)\n  return %b")), invalid,
      "used before it is defined");
  add("SelfLoop", reading(graph("%x: f32[4]", "  %a = add(%x, %a)\n  return %a")), invalid, "");
  add("Twice", reading(graph("%x: f32[4]", "  %a = relu(%x)\n  %a = relu(%x)\n  return %a")), invalid,
      "defined twice");
  add("Dangling", reading(graph("%x: f32[4]", "  return %nobody")), invalid, "not defined");
  add("NameOfAMegabyte",
      making(graph("%x: f32[4]", "  %" + std::string(1 << 20, 'a') + " = relu(%x)\n  return %" +
                                     std::string(1 << 20, 'a'))),
      ok, "");
  add("NameTooLong",
      reading(graph("%x: f32[4]", "  %" + std::string((1 << 20) + 1, 'a') + " = relu(%x)\n  return %x")),
      invalid, "");
  for (const char* bad : {"a\"b", "a\nb", "a*/b", "%s%n", "../x", "a;b"})
    add(std::string("NameLike") + std::to_string(all.size()),
        reading(graph("%x: f32[4]", std::string("  %") + bad + " = relu(%x)\n  return %x")), invalid, "");
  add("NameWithZeroByte",
      reading(graph("%x: f32[4]", std::string("  %a") + '\0' + "b = relu(%x)\n  return %x")), invalid, "");
  add("StarsOfC", making(graph("%__attribute__: f32[4]", "  %main = relu(%__attribute__)\n  return %main")),
      ok, "");
  {
    std::string many, slips;
    for (int i = 0; i < 900; ++i)
      many += "  %value_to_compare_with_all_the_others_" + std::to_string(1000 + i) + " = relu(%x)\n";
    for (int i = 0; i < 3000; ++i)
      slips += (i ? ", %" : "%") + std::string("value_to_compare_with_all_the_others_x") + std::to_string(i);
    add("ManyUndefined",
        reading(graph("%x: f32[4]", many + "  %y = concat(" + slips + "){axis=0}\n  return %y")), invalid,
        "did you mean");
    std::string ops;
    for (int i = 0; i < 3000; ++i)
      ops += "  %y" + std::to_string(i) + " = layer_normm_with_a_long_name_that_is_none(%x)\n";
    add("ManyUnknownOps", reading(graph("%x: f32[4]", ops + "  return %x")), invalid, "too many errors");
  }
  add("Bytes", reading(repeated("\xff\xfe(%{[\"", 10000)), invalid, "");
  add("NestedSize", reading(relu("f32[" + std::string(100000, '(') + "N" + std::string(100000, ')') + "]")),
      invalid, "nested too deeply");
  add("NestedMinus", reading(relu("f32[" + std::string(100001, '-') + "1]")), invalid, "negative size");
  add("NestedMax", reading(relu("f32[" + repeated("max(N,", 100000) + "1" + std::string(100000, ')') + "]")),
      invalid, "nested too deeply");

  // Sizes whose expressions are long.
  add("LongSums", reading(relu("f32[" + sum_of_symbols(8, 500) + "]")), ok, "");
  add(
      "LongSumsInMany",
      [] {
        std::string inputs;
        for (int i = 0; i < 64; ++i) {
          std::string one = sum_of_symbols(1, 400);
          for (size_t at = 0; (at = one.find("A0", at)) != one.npos; at += 2)
            one.replace(at, 2, "B" + std::to_string(i));
          inputs += (i ? ", %x" : "%x") + std::to_string(i) + ": f32[" + one + "]";
        }
        return read(graph(inputs, "  return %x0")).status();
      },
      ok, "");
  add("SumTooLong", reading(relu("f32[" + sum_of_symbols(1, 20000) + "]")), invalid, "too large");
  add("ProductOfSums", reading(relu("f32[" + repeated("(A+B+C+D+E+F+G+H)*", 40) + "2]")), invalid,
      "too large");
  {
    std::string products;
    for (int i = 0; i < 2000; ++i) {
      products += (i ? ", %x" : "%x") + std::to_string(i) + ": f32[(A+B+C+D+E+F+G+H+I+J+K+L+" +
                  std::to_string(i) + ")*(A+M+N+O+P+Q+R+S+T+U+V+W+" + std::to_string(i) + ")]";
    }
    add("ManyProducts", reading(graph(products, "  return %x0")), invalid, "too many to keep");
    std::string facts;
    for (int i = 0; i < 200000; ++i) facts += "  assume S" + std::to_string(i) + " in [1, 2]\n";
    add("ManyFacts", reading(graph("%x: f32[4]", facts + "  return %x")), invalid, "too many");
    std::string symbols;
    for (int i = 0; i < rounds(40000); ++i)
      symbols += (i ? ", %x" : "%x") + std::to_string(i) + ": f32[S" + std::to_string(i) + "]";
    add("ManySymbols", making(graph(symbols, "  %y = relu(%x0)\n  return %y")), ok, "", 2);
  }

  // Bodies in bodies.
  add("BodiesOfBodies", [] { return register_nested(60, true).status(); }, invalid, "more than 10000 nodes");
  add("BodyInBodyInBody", [] { return register_nested(60, false).status(); }, invalid, "levels deep");
  add(
      "BodiesThatMayBe",
      [] {
        TENON_ASSIGN(const std::string name, register_nested(kSanitized ? 9 : 12, true));
        return Program::make(*parse_graph(graph("%x: f32[4]", "  %y = " + name + "(%x)\n  return %y")), {},
                             {})
            .status();
      },
      ok, "", 5);

  // Many nodes.
  const std::vector<std::string> views = {"transpose(@){perm=[1,0]}", "flip(@){axes=[0]}"};
  constexpr int kLong =
      kSanitized ? 500 : 20000;  // frames and time are several times larger under sanitizers
  add("ChainOfMaps", making(chain(kLong, {"sqrt(@)", "exp(@)"})), ok, "", 10);
  add("ChainOfViews", making(chain(kLong, views)), ok, "", 10);
  add("ChainOfCasts", making(chain(kLong, {"cast(@){dtype=f16}", "cast(@){dtype=f32}"})), ok, "", 10);
  {
    std::string ladder = "  %v0 = relu(%x)\n";
    for (int i = 1; i <= 64; ++i)
      ladder += "  %v" + std::to_string(i) + " = add(%v" + std::to_string(i - 1) + ", %v" +
                std::to_string(i - 1) + ")\n";
    add("DiamondLadder", making(graph("%x: f32[4]", ladder + "  return %v64")), ok, "", 2);
  }
  return all;
}

class Hostile : public testing::TestWithParam<Case> {};

TEST_P(Hostile, GetsAStatus) {
  const Case& c = GetParam();
  const Outcome nothing = in_child([] { return Status(); }), outcome = in_child(c.body);
  ASSERT_TRUE(WIFEXITED(outcome.end) && WEXITSTATUS(outcome.end) == 0) << "it ended with " << outcome.end;
  const std::string message = outcome.message.substr(0, 2000);
  EXPECT_EQ(code_name(outcome.code), std::string(code_name(c.code))) << message;
  EXPECT_NE(outcome.message.find(c.says), std::string::npos) << message;
  EXPECT_EQ(outcome.message.empty(), c.code == Code::ok);
  if (kSanitized) return;
  EXPECT_LT(outcome.seconds, c.seconds);
  if (c.seconds <= 1) {
    EXPECT_LT(outcome.kilobytes - nothing.kilobytes, 64 << 10);
  }
}

INSTANTIATE_TEST_SUITE_P(, Hostile, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tenon
