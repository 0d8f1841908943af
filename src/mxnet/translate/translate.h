// translate: a symbol of MXNet becomes a graph of Tenon.
//
//   check      which nodes Tenon translates, by operator and attributes alone
//   translate  infers the types of all variables from the given ones, then emits every node's body
//   partition  groups the nodes that Tenon translates into convex parts (partition.h)
//
// Types flow forwards through the bodies, and backwards and sideways by the rows' `complete`. Given sizes may be
// symbolic. Tested by tests/unit/mxnet/translate/translate_test.cc and tests/mxnet/.
#pragma once

#include <span>

#include "src/mxnet/row.h"

namespace tenon::mxnet {

struct Options {
  bool training = false;              // refuse what behaves differently in training
  int min_nodes = 1;                  // of a part
  std::vector<std::string> op_names;  // translate only these operators; empty: all
};

// Whether Tenon translates a node. Of a variable, `row` is null and the status is ok.
struct Answer {
  const Row* row = nullptr;
  std::optional<Attrs> attrs;  // set if the status is ok and the node is no variable
  Status status;
  bool training = false;  // Options::training
};
// One answer per node. The symbol must outlive the answers.
std::vector<Answer> check(const Symbol& symbol, const Options& options);

// What a caller knows of a variable. The k-th with a name belongs to the k-th variable of this name.
struct Given {
  std::string name;
  std::optional<DType> dtype;
  std::optional<std::string> dims;  // "N,3,224,224"
  bool param = false;               // the same in every call
};

// The graph's inputs are the symbol's variables in order, its outputs the heads. Characters that Tenon's names do not
// have become _ in names of values. The message of a failure names the node or lists the variables without a shape.
Result<Graph> translate(const Symbol& symbol, const Options& options, std::span<const Given> given);

}  // namespace tenon::mxnet
