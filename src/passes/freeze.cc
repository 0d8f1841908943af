// See passes.h. Tested by tests/unit/runtime/run_test.cc.
#include <algorithm>

#include "src/ops/rows/names.h"
#include "src/passes/passes.h"

namespace tenon {
namespace {

// The value that replaces a frozen param, or kNoValue. A param whose storage is a permutation of dense rows
// becomes a dense constant and a transpose. A param with any other layout stays an input.
ValueId frozen_param(Builder& b, const TensorType& type, const InputBinding& binding,
                     const void* bytes_of_param) {
  const size_t rank = type.shape.size();
  std::vector<int64_t> perm(rank);
  for (size_t i = 0; i < rank; ++i) perm[i] = static_cast<int64_t>(i);
  for (size_t i = 0; i < rank; ++i)
    if (!type.shape[i].is_const() || (binding.strides && !(*binding.strides)[i].is_const())) return kNoValue;
  if (binding.strides) {
    auto stride = [&](int64_t a) { return (*binding.strides)[a].value(); };
    std::stable_sort(perm.begin(), perm.end(), [&](int64_t x, int64_t y) { return stride(x) > stride(y); });
    int64_t step = 1;
    for (size_t k = rank; k-- > 0;) {
      if (type.shape[perm[k]] != Dim(1) && stride(perm[k]) != step) return kNoValue;
      step *= type.shape[perm[k]].value();
    }
  }
  Dims stored, back(rank);
  int64_t bytes = size_of(type.dtype);
  bool moved = false;
  for (size_t k = 0; k < rank; ++k) {
    stored.push_back(type.shape[perm[k]]);
    bytes *= stored.back().value();
    back[perm[k]] = Dim(static_cast<int64_t>(k));
    moved = moved || perm[k] != static_cast<int64_t>(k);
  }
  auto data = std::make_shared<ConstantData>();
  data->bytes = bytes_of_param;
  data->size = static_cast<size_t>(bytes);
  data->id = next_constant_id();
  ValueId c = b(ops::constant, {}, {{"dtype", type.dtype}, {"shape", stored}, {"data", data}});
  return moved ? b(ops::transpose, {c}, {{"perm", back}}) : c;
}

}  // namespace

Graph freeze(const Graph& graph, std::span<const void* const> params, std::vector<bool>* frozen) {
  frozen->assign(graph.inputs.size(), false);
  return rewrite(
      graph, [](Builder& b, Node&& node, ValueId) { return b.add(std::move(node)); },
      [&](Builder& b, std::vector<ValueId>& map) {
        for (size_t i = 0; i < graph.inputs.size() && i < params.size(); ++i) {
          if (!params[i]) continue;
          const ValueId v = graph.inputs[i].value;
          const ValueId constant = frozen_param(b, graph.type(v), graph.inputs[i], params[i]);
          if (constant == kNoValue) continue;
          map[v] = constant;
          (*frozen)[i] = true;
        }
      });
}

}  // namespace tenon
