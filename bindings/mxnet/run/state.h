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
  // Of parameters that are or become constants, known from the first run on:
  Identity identity;
  std::shared_ptr<Frozen> frozen;  // null: they are no constants yet
  Program program;                 // destroyed before what it reads
};
static_assert(sizeof(StateHead) == 16);

// `shapes`, `ranks`, `dtypes`: of the inputs. Throws.
State* make_state(std::shared_ptr<Subgraph> subgraph, const unsigned* const* shapes, const int* ranks,
                  const int* dtypes, int count);
// Writes the outputs. The inputs have the dtypes and shapes for which the state was made; inputs.shapes is not read, because MXNet's
// pointers are invalid when it has converted several inputs from a layout of its own. A state runs on one thread at a time, as MXNet
// sees to. Throws.
void forward(State& state, const Tensors& inputs, const Tensors& outputs);

}  // namespace tenon::plugin
