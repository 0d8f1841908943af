#include "bindings/mxnet/run/state.h"

#include <array>

#include "bindings/mxnet/messages.h"

namespace tenon::plugin {
namespace {

// Tensors in the form that tenon.h takes; up to a number without an allocation.
class Arguments {
 public:
  Arguments(const Tensors& inputs, const Tensors& outputs) : inputs_(inputs.count), outputs_(outputs.count) {
    const size_t count = static_cast<size_t>(inputs_) + static_cast<size_t>(outputs_);
    if (count > few_.size()) {
      many_.resize(count);
      many_pointers_.resize(count);
      tensors_ = many_.data();
      pointers_ = many_pointers_.data();
    }
    fill(inputs, 0);
    fill(outputs, inputs_);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Leaves out an input that is a constant of the program.
  void leave_out(size_t input) { pointers_[input] = nullptr; }

  tenon_status run(const Program& program) const {
    return tenon_program_run(program.get(), pointers_, static_cast<size_t>(inputs_), pointers_ + inputs_,
                             static_cast<size_t>(outputs_));
  }

 private:
  void fill(const Tensors& from, int at) {
    for (int i = 0; i < from.count; ++i, ++at) {
      tensors_[at] = from.view(i);
      pointers_[at] = &tensors_[at];
    }
  }

  const int inputs_, outputs_;
  std::array<tenon_tensor, 40> few_;
  std::array<const tenon_tensor*, 40> few_pointers_;
  std::vector<tenon_tensor> many_;
  std::vector<const tenon_tensor*> many_pointers_;
  tenon_tensor* tensors_ = few_.data();
  const tenon_tensor** pointers_ = few_pointers_.data();
};

}  // namespace

State* make_state(std::shared_ptr<Subgraph> subgraph, const unsigned* const* shapes, const int* ranks,
                  const int* dtypes, int count) {
  auto state = std::make_unique<State>();
  Signature& signature = state->signature;
  for (int i = 0; i < count; ++i) append(signature, dtypes[i], shapes[i], ranks[i]);
  for (size_t at = 0; at < signature.size(); at += 2 + static_cast<size_t>(signature[at + 1]))
    state->shapes.push_back(&signature[at] + 2);
  // With constant parameters, the program depends on their bytes, which the first run brings.
  if (!subgraph->frozen_at_once()) state->program = subgraph->programs.program(signature);
  state->subgraph = std::move(subgraph);
  return state.release();
}

void forward(State& state, const Tensors& given, const Tensors& outputs) {
  bool same = static_cast<size_t>(given.count) == state.shapes.size();
  for (int i = 0; same && i < given.count; ++i)
    same = given.dtypes[i] == state.shapes[i][-2] && given.ranks[i] == state.shapes[i][-1];
  if (!same) throw Failure("MXNet runs a graph with other inputs than it announced");
  Tensors inputs = given;
  inputs.shapes = state.shapes.data();
  Arguments arguments(inputs, outputs);
  const std::vector<size_t>& parameters = state.subgraph->parameters();
  if (!parameters.empty()) {
    Identity identity = identity_of(parameters, inputs);
    if (!state.frozen || identity != state.identity) {
      auto frozen = state.subgraph->frozen(identity, inputs);
      Programs& programs = frozen ? frozen->programs : state.subgraph->programs;
      if (frozen || state.frozen) state.program = programs.program(state.signature);
      state.frozen = std::move(frozen);
      state.identity = std::move(identity);
    }
    if (state.frozen)
      for (const size_t parameter : parameters) arguments.leave_out(parameter);
  }
  const tenon_status status = arguments.run(state.program);
  if (status == TENON_OK) return;
  if (status != TENON_INVALID && status != TENON_UNSUPPORTED) throw Error(status);
  // The sizes may contradict what a program with symbols assumes.
  Programs& programs = state.frozen ? state.frozen->programs : state.subgraph->programs;
  check(arguments.run(programs.exact(state.signature)));
}

}  // namespace tenon::plugin
