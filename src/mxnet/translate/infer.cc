// See infer.h.
#include "src/mxnet/translate/infer.h"

#include <stdexcept>

namespace tenon::mxnet {
namespace {

// Sweeps before giving up; each sweep follows the nodes' order forwards or backwards, so chains need few.
constexpr int kMostSweeps = 64;
// A few nodes may become many: recurrent layers, and splits into many parts.
constexpr size_t kMostEmitted = 1 << 17;

class Inference {
 public:
  Inference(const Symbol& symbol, const std::vector<Answer>& answers, const std::shared_ptr<DimTable>& dims,
            PartialTypes& types)
      : symbol_(symbol), answers_(answers), types_(types), builder_(scratch_), values_(symbol.nodes.size()) {
    scratch_.dims = dims;
  }

  Status run() {
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      changed_ = false;
      left_ = 0;
      const size_t n = symbol_.nodes.size();
      for (size_t i = 0; i < n; ++i) TENON_TRY(visit(sweep % 2 ? n - 1 - i : i));
      if (left_ == 0) return {};
      if (!changed_ && !assume_floats()) break;
    }
    return missing();
  }

 private:
  Status visit(size_t n) {
    if (!values_[n].empty()) return {};
    if (symbol_.nodes[n].is_variable()) return visit_variable(n);
    if (!ready(n)) {
      TENON_TRY(complete(n));
      // Completion may have made variables known.
      for (const Entry& e : symbol_.nodes[n].inputs)
        if (symbol_.nodes[e.node].is_variable() && types_[e.node][0].known()) TENON_TRY(visit(e.node));
    }
    if (ready(n)) return emit(n);
    ++left_;
    return {};
  }

  bool ready(size_t n) const {
    if (answers_[n].row->from_output && !types_[n][0].known()) return false;
    for (const Entry& e : symbol_.nodes[n].inputs)
      if (values_[e.node].empty()) return false;
    return true;
  }

  Status visit_variable(size_t n) {
    if (!types_[n][0].known()) {
      ++left_;
      return {};
    }
    auto v = builder_.try_input({}, types_[n][0].type());
    if (!v.ok()) return v.status().at(symbol_.nodes[n].describe());
    values_[n] = {*v};
    changed_ = true;
    return {};
  }

  Status emit(size_t n) {
    std::vector<ValueId> operands;
    for (const Entry& e : symbol_.nodes[n].inputs) operands.push_back(values_[e.node][e.output]);
    TENON_ASSIGN(values_[n], emit_node(builder_, symbol_, answers_[n], n, std::move(operands), types_[n]));
    for (size_t i = 0; i < values_[n].size() && i < types_[n].size(); ++i) {
      const TensorType& type = builder_.type(values_[n][i]);
      types_[n][i].dtype = type.dtype;
      types_[n][i].shape = std::vector<Size>(type.shape.begin(), type.shape.end());
    }
    changed_ = true;
    if (scratch_.nodes.size() > kMostEmitted + 256 * symbol_.nodes.size())
      return unsupported("the symbol becomes a graph of too many nodes");
    return {};
  }

  Status complete(size_t n) {
    const SymbolNode& node = symbol_.nodes[n];
    const Row& row = *answers_[n].row;
    std::vector<Partial> in;
    for (const Entry& e : node.inputs) in.push_back(types_[e.node][e.output]);
    Completion completion(*answers_[n].attrs, *scratch_.dims, in, types_[n]);
    try {
      if (row.complete) row.complete(completion);
      if (!row.mixed) one_dtype(completion);
    } catch (const StatusError& e) {
      return e.status.at("node " + std::to_string(n) + " (" + node.describe() + ")");
    }
    changed_ |= completion.changed;
    for (size_t i = 0; i < in.size(); ++i) {
      const Entry& e = node.inputs[i];
      // The type of a value that a body has computed is final.
      if (values_[e.node].empty()) types_[e.node][e.output] = in[i];
    }
    return {};
  }

  static void one_dtype(Completion& c) {
    std::optional<DType> dtype = c.out[0].dtype;
    for (const Partial& p : c.in)
      if (p.dtype) dtype = p.dtype;
    if (!dtype) return;
    for (Partial& p : c.in) c.set(p, *dtype);
  }

  // Whether some variable had no dtype but a shape.
  bool assume_floats() {
    bool found = false;
    for (size_t n = 0; n < symbol_.nodes.size(); ++n) {
      Partial& type = types_[n][0];
      if (!symbol_.nodes[n].is_variable() || type.dtype) continue;
      type.dtype = DType::f32;
      found = true;
    }
    return found;
  }

  Status missing() const {
    std::string names;
    int count = 0;
    for (size_t n = 0; n < symbol_.nodes.size(); ++n) {
      if (!values_[n].empty() || !(symbol_.nodes[n].is_variable() || answers_[n].row->from_output)) continue;
      if (++count > 8) {
        names += ", ...";
        break;
      }
      names += (names.empty() ? "" : ", ") + symbol_.nodes[n].describe();
    }
    return invalid("the given shapes do not determine the shapes of: " + names);
  }

  const Symbol& symbol_;
  const std::vector<Answer>& answers_;
  PartialTypes& types_;
  Graph scratch_;
  Builder builder_;
  std::vector<Values> values_;  // of each node, empty until its type is known
  bool changed_ = false;
  size_t left_ = 0;
};

}  // namespace

Status infer_types(const Symbol& symbol, const std::vector<Answer>& answers,
                   const std::shared_ptr<DimTable>& dims, PartialTypes& types) {
  return Inference(symbol, answers, dims, types).run();
}

std::vector<Size> stated_shape(const Tuple& tuple, bool np_shape) {
  std::vector<Size> out;
  for (const std::optional<int64_t>& n : tuple)
    out.push_back(n && (np_shape ? *n >= 0 : *n > 0) ? Size(Dim(*n)) : Size());
  return out;
}

Result<Values> emit_node(Builder& builder, const Symbol& symbol, const Answer& answer, size_t n,
                         std::vector<ValueId> operands, const std::vector<Partial>& outputs) {
  const SymbolNode& node = symbol.nodes[n];
  try {
    Call call(builder, *answer.attrs, node, std::move(operands), outputs, answer.training);
    Values values = answer.row->body(call);
    TENON_CHECK(
        values.size() == static_cast<size_t>(answer.row->outputs ? answer.row->outputs(*answer.attrs) : 1),
        "the body of " + node.op + " has another number of outputs than its row states");
    return values;
  } catch (const StatusError& e) {
    return e.status.at("node " + std::to_string(n) + " (" + node.describe() + ")");
  } catch (const std::out_of_range&) {  // of at(), on sizes
    return invalid("node " + std::to_string(n) + " (" + node.describe() + "): an operand has too few axes");
  }
}

}  // namespace tenon::mxnet
