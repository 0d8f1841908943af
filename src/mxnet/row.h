// Row: one operator of MXNet, as Tenon translates it. The rows are in src/mxnet/ops/*.cc; every other file reads them
// through find_row (table.h). A row states the operator's names, operands, attributes with MXNet's defaults, and its
// body: the same computation in Tenon's ops. Output types follow from the body, so a row needs no shape rule; `complete`
// is only for what types do not flow forward: shapes of parameters, and sizes that MXNet leaves to be inferred.
// Tested by tests/mxnet/ops_test.py against MXNet itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/ir/builder.h"
#include "src/mxnet/attrs.h"
#include "src/ops/rows/names.h"

namespace tenon::mxnet {

// A type of which parts may be unknown.
using Size = std::optional<Dim>;
struct Partial {
  std::optional<DType> dtype;
  std::optional<std::vector<Size>> shape;  // nullopt: the rank is unknown too
  bool known() const;
  // The type; it must be known.
  TensorType type() const;
};

// The sizes of a value. An axis that the value does not have is a std::out_of_range, which emit_node (infer.h) turns into a
// failure.
struct Sizes : Dims {
  using Dims::Dims;
  explicit Sizes(Dims dims) : Dims(std::move(dims)) {}
  Dim& operator[](size_t i) { return at(i); }
  Dim operator[](size_t i) const { return at(i); }
  Dim front() const { return at(0); }
  Dim back() const { return at(size() - 1); }
  Dim& back() { return at(size() - 1); }
};

// What a body sees and does. Nodes are added with operator(); a refusal of the builder is thrown as a StatusError.
class Call {
 public:
  Call(Builder& builder, const Attrs& attributes, const SymbolNode& symbol_node,
       std::vector<ValueId> operands, const std::vector<Partial>& outputs, bool trains)
      : b(builder),
        a(attributes),
        node(symbol_node),
        in(std::move(operands)),
        out(outputs),
        training(trains) {}

  Builder& b;
  const Attrs& a;
  const SymbolNode& node;
  std::vector<ValueId> in;
  const std::vector<Partial>& out;  // what is known of the outputs; used by rows with from_output
  const bool training;              // whether the graph will be differentiated

  ValueId operator()(OpId op, std::vector<ValueId> operands, std::vector<NamedAttr> attrs = {});
  // A copy: adding a node moves the graph's types.
  Sizes shape(ValueId v) const { return Sizes(b.type(v).shape); }
  int rank(ValueId v) const { return b.type(v).rank(); }
  DType dtype(ValueId v) const { return b.type(v).dtype; }
  bool has(size_t operand) const { return in.size() > operand; }

  // A literal of v's dtype; of an integer dtype, the value truncated, as MXNet casts it.
  ValueId like(ValueId v, double value);
  ValueId cast(ValueId v, DType to) { return b.cast(v, to); }
  ValueId reshape(ValueId v, Dims shape) { return (*this)(ops::reshape, {v}, {{"shape", std::move(shape)}}); }
  ValueId transpose(ValueId v, Dims perm) {
    return (*this)(ops::transpose, {v}, {{"perm", std::move(perm)}});
  }
  ValueId slice(ValueId v, int axis, Dim start, Dim end, int64_t step = 1);
  ValueId full(Dims shape, DType dtype, double value);
  // The axis counted from 0; throws StatusError if out of range.
  int axis(int64_t given, int rank) const;
  Dim product(const Dims& dims, size_t begin, size_t end) const;
};

// What `complete` sees: the known parts of a node's operands and outputs, both of which it may extend. A contradiction
// is thrown as a StatusError.
class Completion {
 public:
  Completion(const Attrs& attributes, DimTable& table, std::vector<Partial>& operands,
             std::vector<Partial>& outputs)
      : a(attributes), dims(table), in(operands), out(outputs) {}

  const Attrs& a;
  DimTable& dims;
  std::vector<Partial>& in;
  std::vector<Partial>& out;
  bool changed = false;

  bool has(size_t operand) const { return in.size() > operand; }
  // The sizes of an operand if its rank is known, else null.
  const std::vector<Size>* sizes(size_t operand) const {
    return has(operand) && in[operand].shape ? &*in[operand].shape : nullptr;
  }
  void set(Partial& what, const std::vector<Size>& shape);  // adds what `shape` knows
  void set(Partial& what, DType dtype);
  void same(Partial& x, Partial& y);  // equal shapes
  Size mul(Size x, Size y) const;
};

// What `check` sees: a node before any shape is known.
struct Ask {
  const Attrs& a;
  const SymbolNode& node;
  bool training;
};

using Values = std::vector<ValueId>;

struct Row {
  std::string_view names;              // the canonical name, then others of the same operator
  std::string_view operands = "data";  // "data weight bias?": the last may be missing; "data*": any number
  std::string_view attrs = {};         // "axis:int=-1 dtype:dtype?=None": see attrs.h
  Values (*body)(Call&) = nullptr;     // the outputs that Tenon computes
  void (*complete)(Completion&) = nullptr;
  Status (*check)(const Ask&) = nullptr;   // refuses attributes that the body does not translate
  int (*outputs)(const Attrs&) = nullptr;  // how many the body computes; null: one
  int hidden = 0;                          // further outputs, which MXNet uses for gradients
  int auxiliary = 0;                       // how many of the operands, at the end, are auxiliary states
  bool mixed =
      false;  // operands may differ in dtype, so an unknown one does not take the dtype of the others
  bool from_output = false;  // the body needs the output's shape
};

}  // namespace tenon::mxnet
