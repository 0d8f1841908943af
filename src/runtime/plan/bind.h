// bind: matches the host's tensors with a graph's inputs and outputs. It solves the symbols from sizes, and
// checks dtype, rank, sizes, strides, pointers and overlap before anything runs. Messages name the tensor and
// both shapes or dtypes. Tested by tests/unit/runtime/run_test.cc.
#pragma once

#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/ir/graph.h"
#include "src/runtime/plan/plan.h"
#include "src/runtime/plan/tensor.h"

namespace tenon {

// How to find the values of the symbols; computed once per program.
class Binder {
 public:
  // Fails with invalid if no input determines some symbol.
  static Result<Binder> make(const Graph& graph);

  // The value of each symbol, by symbol number, from the sizes of the inputs and the data of inputs that
  // define a symbol. Checks counts, ranks and dtypes.
  Status solve(const Graph& graph, const std::vector<bool>& frozen, std::span<const Tensor> inputs,
               std::span<int64_t> symbols) const;
  // Checks the symbols against the graph's assumptions, and every size of every input against the symbols. A
  // message of a contradiction names both inputs. Does not read frozen inputs. Needed only for sizes without
  // a plan.
  Status check_inputs(const Graph& graph, const std::vector<bool>& frozen, std::span<const Tensor> inputs,
                      std::span<const int64_t> symbols) const;
  // Where the symbol is read: "axis 0 of %x".
  std::string where(const Graph& graph, int symbol) const;
  // The symbols in a size and their sources: "N is 2, axis 0 of %x; M is 4, axis 1 of %x". "" for a constant.
  std::string because(const Graph& graph, Dim size, std::span<const int64_t> symbols) const;

 private:
  struct Source {
    int symbol = 0;
    int input = 0;
    int axis = -1;       // -1: the value of the input
    int64_t factor = 1;  // size = factor * symbol + offset
    int64_t offset = 0;
  };
  std::vector<Source> sources_;
};

// Checks sizes, strides and pointers of every tensor against the plan. Does not read or check frozen inputs.
Status check_tensors(const Graph& graph, const Binder& binder, const Plan& plan,
                     const std::vector<bool>& frozen, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs);

// Checks that every tensor is on the program's device; inputs that define a symbol must be on the host.
Status check_devices(const Graph& graph, DeviceId device, const std::vector<bool>& frozen,
                     std::span<const Tensor> inputs, std::span<const Tensor> outputs);

// Checks that there are as many inputs, outputs or params as the graph has; `what` is "input", "output" or
// "param". Call it before reading any of a caller's array.
Status check_count(const Graph& graph, std::string_view what, size_t given);

// Checks the params to freeze: one per input or none at all. Skips params without data. A symbolic size
// accepts any size.
Status check_params(const Graph& graph, std::span<const Tensor> params);

std::string print_shape(std::span<const int64_t> shape);

}  // namespace tenon
