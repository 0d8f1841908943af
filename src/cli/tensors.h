// Tensors of a graph's inputs and outputs, for the verbs that run a graph: read from .npy files or random, and
// placed in memory at the strides of the graph's bindings. Tested by tests/cli_test.py.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/ir/graph.h"
#include "src/ops/eval/host_tensor.h"
#include "src/ops/eval/placed.h"
#include "src/runtime/plan/tensor.h"

namespace tenon::cli {

// "f32[2,3]".
std::string print_sizes(const HostTensor& t);
// The value's name without the percent sign, or its number.
std::string label(const Graph& g, ValueId v);

class Tensors {
 public:
  // The graph must outlive the object. files: entries name=file.npy. dims: entries N=4. known: tensors by the
  // names of inputs. All other inputs are random numbers from the seed: normal, or 0 and 1 for integers.
  Tensors(const Graph& graph, std::vector<std::string> files, std::vector<std::string> dims,
          std::map<std::string, HostTensor> known, uint64_t seed)
      : g_(graph),
        files_(std::move(files)),
        dims_(std::move(dims)),
        known_tensors_(std::move(known)),
        seed_(seed) {}

  Status prepare();
  // Arguments for Program::run. They borrow from this object.
  std::vector<Tensor> inputs() { return tensors(0, given_.size()); }
  std::vector<Tensor> outputs() { return tensors(given_.size(), placed_.size()); }
  std::vector<HostTensor> input_values() const;
  HostTensor output_value(size_t i) const;
  // The value of every symbol, by DimTable::symbol_number.
  const std::vector<int64_t>& symbols() const { return values_; }

 private:
  std::vector<Tensor> tensors(size_t begin, size_t end);
  Status prepare_tensors();
  // Sets the tensor that later messages name.
  Status look_at(const char* what, ValueId v, const std::vector<int64_t>& shape);
  Status place(const HostTensor& t, const std::optional<Dims>& declared);
  Status read_inputs();
  // Symbols come from dims, then from the shapes of the files; the program checks that they agree.
  Status find_sizes();
  Result<std::vector<int64_t>> sizes(const Dims& dims) const;
  Result<std::vector<int64_t>> strides_of(const HostTensor& t, const std::optional<Dims>& declared) const;

  const Graph& g_;
  const std::vector<std::string> files_, dims_;
  const std::map<std::string, HostTensor> known_tensors_;
  const uint64_t seed_;
  std::vector<std::optional<HostTensor>> given_;  // inputs
  std::vector<Placed> placed_;                    // inputs, then outputs
  std::vector<int64_t> values_;
  std::vector<bool> known_;
  std::string at_ = "the inputs";
};

}  // namespace tenon::cli
