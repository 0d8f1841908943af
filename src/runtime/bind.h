// bind: the host's tensors against a graph's inputs and outputs: solves the symbols from sizes, and checks dtype, rank,
// sizes, strides, pointers and overlap before anything runs. Messages name the tensor and both shapes or dtypes.
// Tested by tests/unit/runtime/run_test.cc.
#pragma once

#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/ir/graph.h"
#include "src/runtime/plan.h"
#include "src/runtime/program.h"

namespace tenon {

// How symbol values are found, worked out once per program.
class Binder {
 public:
  // invalid when some symbol is determined by no input.
  static Result<Binder> make(const Graph& graph);

  // Symbol values, by symbol number, from the inputs' sizes (and the data of inputs that define a symbol). Checks counts, ranks, dtypes.
  Status solve(const Graph& graph, const std::vector<bool>& frozen, std::span<const Tensor> inputs,
               std::span<int64_t> symbols) const;
  // The symbols against what the graph assumes of them, and every size of every input against the symbols: contradictions,
  // named with both inputs. Frozen inputs are not read. Sizes that have a plan have passed.
  Status check_inputs(const Graph& graph, const std::vector<bool>& frozen, std::span<const Tensor> inputs,
                      std::span<const int64_t> symbols) const;
  // Where the symbol is read: "axis 0 of %x".
  std::string where(const Graph& graph, int symbol) const;
  // What a size is made of: "N is 2, axis 0 of %x; M is 4, axis 1 of %x". "" for a constant.
  std::string because(const Graph& graph, Dim size, std::span<const int64_t> symbols) const;

 private:
  struct Source {
    int symbol = 0;
    int input = 0;
    int axis = -1;       // -1: the input's value
    int64_t factor = 1;  // size = factor * symbol + offset
    int64_t offset = 0;
  };
  std::vector<Source> sources_;
};

// Sizes, strides and pointers of every tensor against the plan. Frozen inputs are not read and not checked.
Status check_tensors(const Graph& graph, const Binder& binder, const Plan& plan,
                     const std::vector<bool>& frozen, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs);

// Every tensor on the program's device; inputs that define a symbol on the host.
Status check_devices(const Graph& graph, DeviceId device, const std::vector<bool>& frozen,
                     std::span<const Tensor> inputs, std::span<const Tensor> outputs);

// As many inputs, outputs or params ("input", ...) as the graph has? Asked before any of a caller's array is read.
Status check_count(const Graph& graph, std::string_view what, size_t given);

// Params to be frozen, one per input or none at all; those without data are passed over. Symbolic sizes fit anything.
Status check_params(const Graph& graph, std::span<const Tensor> params);

std::string print_shape(std::span<const int64_t> shape);

}  // namespace tenon
