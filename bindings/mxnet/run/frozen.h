// Programs whose parameters are constants (option freeze): Tenon packs and folds them once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/mxnet/run/programs.h"
#include "bindings/mxnet/run/tensors.h"
#include "bindings/mxnet/symbol.h"

namespace tenon::plugin {

// The inputs (numbers among the variables) that are parameters by their place: weights, biases, statistics. An input that any node reads
// in another place is none.
std::vector<size_t> parameters_of(const Symbol& symbol);

// Identifies the parameters of a call: the contents of small ones and of those that MXNet has never written; of others
// address, count of writes and elements all over them, because memory that was freed may come back with the same address
// and count.
using Identity = std::vector<uint64_t>;
Identity identity_of(const std::vector<size_t>& parameters, const Tensors& inputs);

// Owns a copy of the parameters, because a program reads them as long as it lives.
class Frozen {
 public:
  using Compile = std::function<Program(const Pattern&, const std::vector<const tenon_tensor*>& parameters)>;
  // compile: gets one entry per input, null for those that are no parameters.
  Frozen(const std::vector<size_t>& parameters, const Tensors& inputs, Compile compile);

  // Whether these are the same parameters: dtypes, shapes and all bytes.
  bool equals(const Tensors& inputs) const;

 private:
  struct Copy {
    size_t input;
    int dtype;
    std::vector<int64_t> shape;
    std::vector<std::max_align_t> bytes;
    tenon_tensor view;
  };
  std::vector<Copy> copies_;
  std::vector<const tenon_tensor*> views_;  // per input

 public:
  Programs programs;  // destroyed before the copies that they read
};

}  // namespace tenon::plugin
