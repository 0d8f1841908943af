// Attrs: the attributes of a node as the values that its operator reads. MXNet stores them as text, in the spelling of
// Python or of dmlc's parameter structures, and leaves defaults out.
//
//   int     3, -1, 3L                       bool   True true 1, False false 0
//   float   1e-05, 2, inf, nan, 0.5f; MXNet keeps it as f32, so its value is rounded to f32; double is not rounded
//   text    any; with {a,b}: one of these
//   shape   (3, 3) (1,) 3 [3,3] (3L, 3L) () and None for an element (Attrs::tuple)
//   dtype   float32 float64 float16 int32 int64 int8 uint8 bool, or MXNet's number of the dtype
//   any     read by nobody (workspace, cudnn_tune)
// A kind followed by ? also takes None. Tested by tests/unit/mxnet/attrs_test.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/ir/dtype.h"
#include "src/mxnet/symbol.h"

namespace tenon::mxnet {

// Larger integers and longer tuples are no values, so that arithmetic on a few of them fits in 64 bits.
inline constexpr int64_t kMostInteger = int64_t{1} << 48;
inline constexpr size_t kMostElements = 4096;
// Each returns nullopt if the text is no such value.
std::optional<int64_t> read_attr_int(std::string_view text);
std::optional<double> read_attr_float(std::string_view text);
std::optional<bool> read_attr_bool(std::string_view text);
using Tuple = std::vector<std::optional<int64_t>>;  // an element may be None
std::optional<Tuple> read_attr_tuple(std::string_view text);
std::optional<DType> read_attr_dtype(std::string_view text);
// MXNet's number of a dtype (mshadow's type flag); nullopt: Tenon has no such dtype.
std::optional<DType> dtype_of_flag(int64_t flag);

// "kernel:shape stride:shape=() pool_type:text{max,avg}=max": see Row::attrs in row.h.
struct AttrColumn {
  std::string_view name, kind;
  bool none = false;                         // None is a value
  std::vector<std::string_view> choices;     // of a text
  std::optional<std::string_view> fallback;  // absent: the attribute is required
};
std::vector<AttrColumn> parse_columns(std::string_view columns);

class Attrs {
 public:
  // Refuses (invalid) a missing or unreadable attribute, and (unsupported) one that the columns do not list. Hidden
  // attributes, __name__, are skipped. The columns and the node must outlive the result.
  static Result<Attrs> read(const std::vector<AttrColumn>& columns, const SymbolNode& node);

  // The name must be a column of the kind; TENON_CHECKs. is_none: of a column that takes None.
  bool is_none(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::string_view text(std::string_view name) const;
  DType dtype(std::string_view name) const;
  Tuple tuple(std::string_view name) const;
  std::vector<int64_t> ints(std::string_view name) const;  // a tuple; None is refused (StatusError)
  bool given(std::string_view name) const { return node_->attr(name) != nullptr; }

 private:
  const AttrColumn& column(std::string_view name) const;
  std::string_view value(std::string_view name) const;
  template <class T>
  T read(std::string_view name, std::optional<T> (*reader)(std::string_view), const char* kind) const;
  const std::vector<AttrColumn>* columns_ = nullptr;
  const SymbolNode* node_ = nullptr;
};

}  // namespace tenon::mxnet
