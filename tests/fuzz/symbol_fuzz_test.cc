// Hostile symbols and params: mutated and random files never crash, hang or take much memory; what they give is an answer or
// a failure that is not internal. TENON_FUZZ_ROUNDS=n tries n files instead of 50 000.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <random>

#include "src/ir/verify.h"
#include "src/mxnet/params.h"
#include "src/mxnet/table.h"
#include "src/mxnet/translate/partition.h"
#include "src/mxnet/translate/translate.h"
#include "tests/support/sanitized.h"
#include "tests/support/symbol_text.h"

namespace tenon::mxnet {
namespace {

int how_many() {
  const char* given = std::getenv("TENON_FUZZ_ROUNDS");
  return given ? std::atoi(given) : rounds(50'000);
}

using Random = std::mt19937;

size_t below(Random& random, size_t n) { return n == 0 ? 0 : random() % n; }

// Replaces some letters and digits: what it makes is mostly still JSON.
std::string reworded(std::string text, Random& random) {
  constexpr std::string_view kBytes = "0123456789-.eNTFLax";
  for (size_t changes = 1 + below(random, 4); changes > 0; --changes) {
    const size_t at = below(random, text.size());
    if (std::isalnum(static_cast<unsigned char>(text[at]))) text[at] = kBytes[below(random, kBytes.size())];
  }
  return text;
}

// Changes, removes, repeats or inserts some bytes.
std::string mutated(std::string text, Random& random) {
  constexpr std::string_view kBytes = "{}[]\":,-0123456789eE.()LNTF\\ \x01\xff";
  for (size_t changes = 1 + below(random, 6); changes > 0 && !text.empty(); --changes) {
    const size_t at = below(random, text.size()), length = below(random, 12);
    switch (below(random, 5)) {
      case 0: text[at] = kBytes[below(random, kBytes.size())]; break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(below(random, text.size()), length)); break;
      case 3: text.insert(at, 1, kBytes[below(random, kBytes.size())]); break;
      default: text[at] = static_cast<char>(random()); break;
    }
  }
  return text;
}

// Everything that the C interface does with a symbol.
void use(const Symbol& symbol, const std::string& json) {
  const std::string text = print_symbol(symbol);
  const auto again = parse_symbol(text);
  ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << text;
  ASSERT_EQ(print_symbol(*again), text);
  partition(symbol, {});
  std::vector<Given> given;
  for (const char* name : {"data", "x", "y"})
    for (const uint32_t n : symbol.variables())
      if (symbol.nodes[n].name == name && given.empty()) given.push_back({name, DType::f32, "N,3,8,8"});
  try {
    const auto graph = translate(symbol, {}, given);
    if (graph.ok())
      ASSERT_TRUE(verify(*graph).ok()) << json;
    else
      ASSERT_NE(graph.status().code(), Code::internal) << graph.status().message() << "\n" << json;
  } catch (const StatusError&) {  // a size that is too large
  } catch (const InternalError& e) {
    FAIL() << e.what() << "\n" << json;
  }
}

const std::vector<std::string>& seeds() {
  static const std::vector<std::string> made = {
      symbol_json(
          R"(c = Convolution(data w b){kernel=(3, 3); num_filter=8; pad=(1, 1); stride=(2, 2); num_group=1}
                     n = BatchNorm(c g h m v){fix_gamma=False; axis=1}
                     a = LeakyReLU(n){act_type=leaky; slope=0.1}
                     p = Pooling(a){kernel=(2, 2); stride=(2, 2); pooling_convention=full; pool_type=avg}
                     f = Flatten(p)
                     fc = FullyConnected(f fw fb){num_hidden=10}
                     s = SoftmaxOutput(fc label)
                     return s)"),
      symbol_json(R"(e = Embedding(x ew){input_dim=10; output_dim=12}
                     r = Reshape(e){shape=(0, -3, -4, 4, -1, -2); reverse=False}
                     t = transpose(r){axes=(1, 0, 2, 3, 4)}
                     s = slice(t){begin=(None, 0); end=(None, 3); step=(1, -1)}
                     l = LayerNorm(s lg lb){axis=-1}
                     sp = SliceChannel(l){num_outputs=2; axis=-1}
                     k = Concat(sp:0 sp:1){num_args=2; dim=1}
                     o = topk(k){k=2; ret_typ=both}
                     return o:0 o:1)"),
      symbol_json(R"(z = _zeros(){shape=(2, 0, 5)}
                     q = SwapAxis(x){dim1=0; dim2=1}
                     r = Reshape(q){shape=(3, 0, -1)}
                     n = RNN(r p z z){mode=lstm; state_size=5; num_layers=2; state_outputs=True}
                     m = SequenceMask(n len){use_sequence_length=True; value=-1.5}
                     d = dot(m w){transpose_b=True}
                     u = sum(d){axis=(0, 1); exclude=True; keepdims=True}
                     v = _mul_scalar(u){scalar=1e3}
                     pd = tile(v){reps=(2, 3)}
                     return pd n:1)")};
  return made;
}

size_t most_memory() {  // of this process so far, in MiB
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) / 1024;
}

TEST(SymbolFuzz, MutatedSymbols) {
  for (const std::string& json : seeds()) {
    const auto symbol = parse_symbol(json);
    ASSERT_TRUE(symbol.ok()) << symbol.status().message();
    use(*symbol, json);
  }
  const size_t before = most_memory();
  Random random(1);
  int parsed = 0;
  for (int i = 0; i < how_many(); ++i) {
    const std::string& seed = seeds()[below(random, seeds().size())];
    const std::string json = below(random, 2) == 0 ? reworded(seed, random) : mutated(seed, random);
    const auto symbol = parse_symbol(json);
    if (!symbol.ok()) {
      ASSERT_FALSE(symbol.status().message().empty());
      continue;
    }
    ++parsed;
    use(*symbol, json);
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << json;
  }
  EXPECT_GT(parsed, how_many() / 10);
  if (!kSanitized) {
    EXPECT_LT(most_memory() - before, 64u);
  }
}

// Symbols of random operators with random attributes, many of them wrong: bodies see everything.
TEST(SymbolFuzz, RandomNodes) {
  constexpr std::string_view kValues[] = {"0",
                                          "1",
                                          "2",
                                          "-1",
                                          "3",
                                          "-4",
                                          "1e9",
                                          "None",
                                          "True",
                                          "()",
                                          "(1,)",
                                          "(2, 2)",
                                          "(0, 0)",
                                          "(-1, -1)",
                                          "(1, 2, 3)",
                                          "float32",
                                          "int32",
                                          "281474976710656",
                                          "-281474976710656",
                                          "(281474976710656, 281474976710656)",
                                          "0.5",
                                          "nan",
                                          "inf"};
  constexpr std::string_view kShapes[] = {"",        "3",   "N,3",       "2,3,4",
                                          "N,3,8,8", "0,4", "1,1,1,1,1", "4611686018427387903,2"};
  const std::vector<const Row*> rows = all_rows();
  Random random(2);
  int translated = 0;
  for (int i = 0; i < how_many(); ++i) {
    Symbol symbol;
    for (const char* name : {"data", "x", "y"}) symbol.nodes.push_back({"null", name, {}, {}, {}, {}, 1});
    std::vector<Given> given;
    for (const char* name : {"data", "x", "y"})
      given.push_back({name, below(random, 4) == 0 ? DType::i32 : DType::f32,
                       std::string(kShapes[below(random, std::size(kShapes))])});
    for (size_t k = 1 + below(random, 3); k > 0; --k) {
      const Row& row = *rows[below(random, rows.size())];
      SymbolNode node;
      node.op = row.names.substr(0, row.names.find(' '));
      node.name = "n" + std::to_string(k);
      const auto [least, most] = operand_range(row);
      for (size_t n = least + below(random, std::min<size_t>(most - least, 2) + 1); n > 0; --n)
        node.inputs.push_back({static_cast<uint32_t>(below(random, symbol.nodes.size())), 0, 0});
      for (const AttrColumn& column : columns_of(row)) {
        if (column.fallback && below(random, 2) == 0) continue;
        std::string value(kValues[below(random, std::size(kValues))]);
        if (!column.choices.empty()) value = column.choices[below(random, column.choices.size())];
        node.set_attr(std::string(column.name), value);
      }
      symbol.nodes.push_back(node);
      symbol.heads = {{static_cast<uint32_t>(symbol.nodes.size() - 1), 0, 0}};
    }
    try {
      const auto graph = translate(symbol, {}, given);
      translated += graph.ok();
      if (graph.ok()) continue;
      ASSERT_NE(graph.status().code(), Code::internal) << graph.status().message();
    } catch (const StatusError&) {
    } catch (const InternalError& e) {
      FAIL() << e.what() << "\n" << print_symbol(symbol);
    } catch (const std::exception& e) {
      FAIL() << e.what() << "\n" << print_symbol(symbol);
    }
  }
  EXPECT_GT(translated, how_many() / 100);
}

TEST(SymbolFuzz, MutatedParams) {
  std::string file;
  auto put = [&](auto value) { file.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(uint64_t{0x112}), put(uint64_t{0}), put(uint64_t{2});
  for (const uint32_t magic : {0xF993FAC9u, 0xF993FACAu}) {
    put(magic), put(int32_t{0}), put(int32_t{2}), put(int64_t{2}), put(int64_t{3});
    put(int32_t{1}), put(int32_t{0}), put(int32_t{0});
    file.append(24, '\x3f');
  }
  put(uint64_t{2}), put(uint64_t{5}), file += "arg:w", put(uint64_t{5}), file += "aux:m";
  ASSERT_TRUE(parse_params({reinterpret_cast<const unsigned char*>(file.data()), file.size()}).ok());
  Random random(3);
  for (int i = 0; i < how_many(); ++i) {
    const std::string bytes = mutated(file, random);
    const auto params = parse_params({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()});
    if (!params.ok()) continue;
    for (const Param& p : *params) ASSERT_TRUE(p.offset <= bytes.size() && p.size <= bytes.size() - p.offset);
  }
}

}  // namespace
}  // namespace tenon::mxnet
