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
  size_t data_limit = SIZE_MAX;  // longer constants are cut ("0x0102..."); such text does not parse back
};
// Works for any graph whose operands exist. Unnamed values are numbered by position, inputs first.
std::string print(const Graph& graph, const PrintOptions& options = {});
// One node's line without the newline, "%h = matmul(%x, %w) : f32[2,5]". Unnamed values are numbered by id.
std::string print_node(const Graph& graph, ValueId v, const PrintOptions& options = {});
std::string print_attr(const DimTable& dims, AttrKind kind, const AttrValue& value,
                       const PrintOptions& options = {});
// Equality as the printer sees it: floats by bits (all NaNs are equal), data by contents.
bool same_attr(const AttrValue& a, const AttrValue& b);

// Accepts any bytes. The status lists the errors, one per line as "line:column: message", at most kMaxErrors.
// Types are inferred and compared with the types that the text states. The parser does not check the other
// invariants of verify().
inline constexpr int kMaxErrors = 100;
Result<Graph> parse_graph(std::string_view text);

// The attributes of one node, as between the braces: "axis=-1, shape=[N,4]"; the sizes belong to the table.
Result<std::vector<NamedAttr>> parse_attrs(const std::shared_ptr<DimTable>& dims, const Op& row,
                                           std::string_view text);
// "N,2*N,4"; "" is the empty list.
Result<Dims> parse_sizes(DimTable& dims, std::string_view text);

}  // namespace tenon
