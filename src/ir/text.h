// The text form of graphs: parse_graph(print(g)) is g again, and print(*parse_graph(t)) is t for any printed t. The
// grammar is at the top of parse.cc. Tested by tests/unit/ir/ir_test.cc and tests/golden/ir/*.tn.
#pragma once

#include <string>
#include <string_view>

#include "src/ir/builder.h"
#include "src/ir/graph.h"
#include "src/ir/op.h"

namespace tenon {

struct PrintOptions {
  size_t data_limit = SIZE_MAX;  // longer constants are cut, "0x0102...": for reading, it does not parse back
};
// For any graph whose operands exist. Unnamed values are numbered by position, inputs first.
std::string print(const Graph& graph, const PrintOptions& options = {});
// One node's line, "%h = matmul(%x, %w) : f32[2,5]", without the newline; unnamed values by their id.
std::string print_node(const Graph& graph, ValueId v, const PrintOptions& options = {});
std::string print_attr(const DimTable& dims, AttrKind kind, const AttrValue& value,
                       const PrintOptions& options = {});
// Equality as the printer sees it: floats by bits (all NaNs alike), data by contents.
bool same_attr(const AttrValue& a, const AttrValue& b);

// Any bytes in. The status holds every error found, one per line: "line:column: message", at most kMaxErrors of them.
// Types are inferred, and checked against the text where it states them. What verify() checks beyond that is not checked.
inline constexpr int kMaxErrors = 100;
Result<Graph> parse_graph(std::string_view text);

// The attributes of one node, as between the braces: "axis=-1, shape=[N,4]"; sizes are of the table.
Result<std::vector<NamedAttr>> parse_attrs(const std::shared_ptr<DimTable>& dims, const Op& row,
                                           std::string_view text);
// "N,2*N,4"; "" is the empty list.
Result<Dims> parse_sizes(DimTable& dims, std::string_view text);

}  // namespace tenon
