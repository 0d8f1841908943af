// bind: matches the host's tensors with a graph's inputs and outputs, before anything runs. A call looks at
// each tensor twice: bind() needs no plan, and check() compares with the plan. Messages name the tensor and
// both shapes or dtypes. Tested by tests/unit/runtime/run_test.cc.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/base/stack_array.h"
#include "src/base/status.h"
#include "src/ir/graph.h"
#include "src/runtime/plan/plan.h"
#include "src/runtime/plan/tensor.h"

namespace tenon {

// The part that a tensor plays in a call.
enum class Role { input, output, param };
const char* name(Role role);

// The values that a call needs of its tensors.
struct BoundCall {
  explicit BoundCall(const Graph& graph)
      : key(static_cast<size_t>(graph.dims->symbol_count()) + 1),
        symbols(key.data(), key.size() - 1),
        inputs(graph.inputs.size()),
        outputs(graph.outputs.size()) {}
  StackArray<int64_t, 32> key;  // of the plan: the symbols by number, then the number of threads
  const std::span<int64_t> symbols;
  StackArray<void*, 64> inputs, outputs;
};

// Knows how to find the values of the symbols, and what each tensor must be. Made once per program; the graph must outlive
// it.
class Binder {
 public:
  Binder() = default;
  // frozen: per input, whether it became a constant; such inputs are neither read nor checked. Fails with
  // invalid if no input determines some symbol.
  static Result<Binder> make(const Graph& graph, const std::vector<bool>& frozen, DeviceId device);

  // Checks counts, devices, dtypes and ranks. Reads the pointers, and the symbols from the sizes of inputs and
  // from the data of inputs that define a symbol.
  Status bind(std::span<const Tensor> inputs, std::span<const Tensor> outputs, BoundCall* call) const;
  // Checks the symbols against the graph's assumptions, and every size of every input against the symbols. A
  // message of a contradiction names both inputs. Needed only for sizes without a plan.
  Status check_sizes(std::span<const Tensor> inputs, std::span<const int64_t> symbols) const;
  // Checks sizes, strides, pointers and overlap of every tensor against the plan of the bound symbols. late: whether outputs may have no
  // memory yet.
  Status check(const Plan& plan, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
               bool late) const;

  // Where the symbol is read: "axis 0 of %x".
  std::string where(int symbol) const;
  // The symbols in a size and their sources: "N is 2, axis 0 of %x; M is 4, axis 1 of %x". "" for a constant.
  std::string because(Dim size, std::span<const int64_t> symbols) const;

 private:
  struct Source {
    int symbol = 0;
    int input = 0;
    int axis = -1;       // -1: the value of the input
    int64_t factor = 1;  // size = factor * symbol + offset
    int64_t offset = 0;
  };
  // The facts about a tensor that no size changes.
  struct Expected {
    ValueId value;
    DType dtype;
    bool frozen;
    bool donated;
    size_t rank;
    DeviceId device;
    bool admits(const Tensor& t) const;
  };
  Status find_sources();
  Status refuse(Role role, const Expected& want, const Tensor& t) const;
  Status read_symbol(const Source& source, const Tensor& t, int64_t* symbol) const;
  std::string mismatch(ValueId v, std::span<const int64_t> want, std::span<const int64_t> got,
                       std::span<const int64_t> symbols) const;
  bool apart(const Plan& plan, std::span<const Tensor> inputs, std::span<const Tensor> outputs) const;
  Status check_one(Role role, const Expected& e, const Plan::Expected& want, const Tensor& t,
                   const Plan& plan, bool late = false) const;

  const Graph* graph_ = nullptr;
  std::vector<Source> sources_;
  std::vector<Expected> inputs_, outputs_;
  size_t donated_ = 0;  // the number of donated inputs
};

// Checks that there are as many inputs, outputs or params as the graph has. Call it before reading any of a
// caller's array.
Status check_count(const Graph& graph, Role role, size_t given);

// Checks the params to freeze: one per input or none at all. Skips params without data. A symbolic size
// accepts any size.
Status check_params(const Graph& graph, std::span<const Tensor> params);

std::string print_shape(std::span<const int64_t> shape);

}  // namespace tenon
