// The state of one subgraph operator, which MXNet creates for given shapes, runs on any thread and destroys on any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "bindings/mxnet/abi.h"
#include "bindings/mxnet/run/subgraph.h"
#include "bindings/mxnet/run/tensors.h"

namespace tenon::plugin {

struct State {
  StateHead head;  // MXNet reads it, so it comes first
  std::shared_ptr<Subgraph> subgraph;
  Signature signature;                 // of the inputs
  std::vector<const int64_t*> shapes;  // of the inputs, in `signature`
  bool guarded = false;                // see Options
  // The outputs of a subgraph that trains; the first forward pass fills them:
  Signature output_signature;
  std::vector<const int64_t*> output_shapes;
  // The parameters that are or become constants; the first run fills them:
  Identity identity;
  std::shared_ptr<Frozen> frozen;  // null: they are no constants yet
  Program program;                 // destroyed before what it reads
  Program gradients;               // from the first backward pass on
};
static_assert(sizeof(StateHead) == 16);

// `shapes`, `ranks`, `dtypes`: of the inputs. Throws.
State* make_state(std::shared_ptr<Subgraph> subgraph, const unsigned* const* shapes, const int* ranks,
                  const int* dtypes, int count);
// Writes the outputs. The inputs have the dtypes and shapes for which the state was made; inputs.shapes is not read, because MXNet's
// pointers are invalid when it has converted several inputs from a layout of its own. A state runs on one thread at a time, as MXNet
// sees to. Throws.
void forward(State& state, const Tensors& inputs, const Tensors& outputs);

// Writes one gradient per input: zeros for integers. `given`: the derivatives by the outputs, the inputs, the outputs. After a forward
// pass. Throws.
void backward(State& state, const Tensors& given, const Tensors& gradients);

}  // namespace tenon::plugin
