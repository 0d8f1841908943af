// LiteralParser: reads sizes, dtypes, types and attributes, the parts of the text form that name no value. The
// grammar is at the top of parse.cc.
#pragma once

#include <vector>

#include "src/base/text.h"
#include "src/ir/builder.h"
#include "src/ir/graph.h"
#include "src/ir/op.h"

namespace tenon {

class LiteralParser {
 public:
  // Both must outlive the parser. New symbols are added to dims.
  LiteralParser(Lexer& lexer, DimTable& dims) : lexer_(lexer), dims_(dims) {}

  Result<Dim> size();
  Result<Dims> sizes();
  Result<DType> dtype();
  Result<TensorType> type();
  // Reads "NAME = VALUE", an attribute of the row that is not in `given` yet, and appends it there.
  Status attribute(const Op& row, std::vector<NamedAttr>& given);

 private:
  Result<AttrValue> attr_value(AttrKind kind);
  Result<AttrValue> data();

  Lexer& lexer_;
  DimTable& dims_;
};

}  // namespace tenon
