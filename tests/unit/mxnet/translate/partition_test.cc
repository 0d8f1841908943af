// Parts of a symbol (src/mxnet/translate/partition.h): eight shapes of graphs that are hard to partition, and random graphs.
#include "src/mxnet/translate/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/support/sanitized.h"
#include "tests/support/symbol_text.h"

namespace tenon::mxnet {
namespace {

using testing::ElementsAre;
using testing::Pair;

// The parts of the nodes that are no variables, by name.
std::map<std::string, int> parts(const std::string& notation, Options options = {}) {
  const auto symbol = parse_symbol(symbol_json(notation));
  EXPECT_TRUE(symbol.ok()) << symbol.status().message();
  const std::vector<int32_t> found = partition(*symbol, options);
  std::map<std::string, int> out;
  for (size_t i = 0; i < found.size(); ++i)
    if (!symbol->nodes[i].is_variable()) out[symbol->nodes[i].name] = found[i];
  return out;
}

Options only(std::vector<std::string> ops) {
  Options options;
  options.op_names = std::move(ops);
  return options;
}

TEST(Partition, SeparateNodesAreSeparateParts) {
  EXPECT_THAT(parts("a = exp(x)\nb = exp(y)\nreturn a b"), ElementsAre(Pair("a", 0), Pair("b", 1)));
}

TEST(Partition, ABranchThatIsLeftMakesTwoParts) {
  const std::string diamond = "e = exp(x)\nc = cos(e)\ns = sin(e)\nsum = elemwise_add(c s)\nreturn sum";
  EXPECT_THAT(parts(diamond), ElementsAre(Pair("c", 0), Pair("e", 0), Pair("s", 0), Pair("sum", 0)));
  // Without cos, exp and the rest would make a cycle; sin belongs to either.
  EXPECT_THAT(parts(diamond, only({"exp", "sin", "elemwise_add"})),
              ElementsAre(Pair("c", -1), Pair("e", 0), Pair("s", 0), Pair("sum", 1)));
}

TEST(Partition, AuxiliaryStatesAreInputs) {
  EXPECT_THAT(
      parts("a = BatchNorm(x g b m v)\nb1 = BatchNorm(x g b m v)\nc = elemwise_add(a b1)\nreturn c a b1"),
      ElementsAre(Pair("a", 0), Pair("b1", 0), Pair("c", 0)));
}

TEST(Partition, OneNodeMayBeSeveralOutputs) {
  EXPECT_THAT(parts("e = exp(x)\nreturn e e e"), ElementsAre(Pair("e", 0)));
}

TEST(Partition, OneNodeMayBeReadTwice) {
  EXPECT_THAT(parts("s = elemwise_add(x x)\nt = elemwise_add(s s)\nreturn t"),
              ElementsAre(Pair("s", 0), Pair("t", 0)));
}

TEST(Partition, ALongPathOutsideIsACycleToo) {
  EXPECT_THAT(parts("s = sin(x)\na = cos(s)\nb = cos(a)\nc = cos(b)\nsum = elemwise_add(s c)\nreturn sum",
                    only({"sin", "elemwise_add"})),
              ElementsAre(Pair("a", -1), Pair("b", -1), Pair("c", -1), Pair("s", 0), Pair("sum", 1)));
}

TEST(Partition, PartsShareInputsAndOutputs) {
  EXPECT_THAT(parts("a = exp(x)\nb = cos(a)\nc = exp(b)\nd = elemwise_add(c x)\nreturn a b d",
                    only({"exp", "elemwise_add"})),
              ElementsAre(Pair("a", 0), Pair("b", -1), Pair("c", 1), Pair("d", 1)));
}

TEST(Partition, ABranchJoinsThePartThatReadsIt) {
  // side could run early, but only sum reads it.
  EXPECT_THAT(parts("a = exp(x)\nu = cos(a)\nside = sin(y)\nsum = elemwise_add(u side)\nreturn sum",
                    only({"exp", "sin", "elemwise_add"})),
              ElementsAre(Pair("a", 0), Pair("side", 1), Pair("sum", 1), Pair("u", -1)));
}

TEST(Partition, SmallPartsAreLeft) {
  Options options = only({"exp", "elemwise_add"});
  options.min_nodes = 2;
  EXPECT_THAT(parts("a = exp(x)\nb = cos(a)\nc = exp(b)\nd = elemwise_add(c x)\nreturn d", options),
              ElementsAre(Pair("a", -1), Pair("b", -1), Pair("c", 0), Pair("d", 0)));
}

Symbol random_symbol(std::mt19937& random, int nodes) {
  Symbol symbol;
  symbol.nodes.push_back({"null", "x", {}, {}, {}, {}, 1});
  for (int i = 1; i <= nodes; ++i) {
    const bool binary = random() % 2 == 0;
    SymbolNode node;
    node.op = random() % 3 == 0 ? "unknown" : binary ? "elemwise_add" : "exp";
    // Mostly recent nodes, so that paths are long.
    for (int k = 0; k < (binary ? 2 : 1); ++k)
      node.inputs.push_back(
          {static_cast<uint32_t>(std::max<int>(0, i - 1 - static_cast<int>(random() % 6))), 0, 0});
    if (random() % 8 == 0)
      node.control_deps.push_back(static_cast<uint32_t>(random() % static_cast<unsigned>(i)));
    symbol.nodes.push_back(node);
  }
  symbol.heads.push_back({static_cast<uint32_t>(nodes), 0, 0});
  return symbol;
}

// Whether a topological order exists if each part is one node.
bool acyclic(const Symbol& symbol, const std::vector<int32_t>& part) {
  const auto group = [&](uint32_t n) {
    return part[n] >= 0 ? static_cast<int>(symbol.nodes.size()) + part[n] : static_cast<int>(n);
  };
  std::map<int, std::set<int>> after;
  std::map<int, int> waits;
  const auto users = symbol.users();
  for (uint32_t n = 0; n < symbol.nodes.size(); ++n) {
    waits[group(n)];
    for (const uint32_t user : users[n])
      if (group(n) != group(user) && after[group(n)].insert(group(user)).second) ++waits[group(user)];
  }
  std::vector<int> ready;
  for (const auto& [g, count] : waits)
    if (count == 0) ready.push_back(g);
  size_t done = 0;
  while (!ready.empty()) {
    const int g = ready.back();
    ready.pop_back();
    ++done;
    for (const int next : after[g])
      if (--waits[next] == 0) ready.push_back(next);
  }
  return done == waits.size();
}

bool connected(const Symbol& symbol, const std::vector<int32_t>& part, int32_t which) {
  std::vector<uint32_t> members;
  for (uint32_t n = 0; n < part.size(); ++n)
    if (part[n] == which) members.push_back(n);
  std::set<uint32_t> reached = {members[0]};
  for (bool grew = true; grew;) {
    grew = false;
    for (const uint32_t n : members) {
      auto join = [&](uint32_t from) {
        if (part[from] == which && reached.contains(from) != reached.contains(n))
          grew = true, reached.insert(from), reached.insert(n);
      };
      for (const Entry& e : symbol.nodes[n].inputs) join(e.node);
      for (const uint32_t dep : symbol.nodes[n].control_deps) join(dep);
    }
  }
  return reached.size() == members.size();
}

TEST(Partition, RandomGraphsHaveNoCyclesBetweenParts) {
  std::mt19937 random(7);
  for (int round = 0; round < rounds(2000); ++round) {
    const Symbol symbol = random_symbol(random, 4 + static_cast<int>(random() % 40));
    const std::vector<int32_t> part = partition(symbol, {});
    ASSERT_TRUE(acyclic(symbol, part)) << print_symbol(symbol);
    for (size_t n = 0; n < part.size(); ++n) {
      const bool ours = !symbol.nodes[n].is_variable() && symbol.nodes[n].op != "unknown";
      ASSERT_EQ(part[n] >= 0, ours) << print_symbol(symbol);
    }
    for (int32_t p = 0; p <= *std::max_element(part.begin(), part.end()); ++p)
      ASSERT_TRUE(connected(symbol, part, p)) << p << "\n" << print_symbol(symbol);
  }
}

}  // namespace
}  // namespace tenon::mxnet
