#include "bindings/mxnet/run/state.h"

#include <array>
#include <cstring>

#include "bindings/mxnet/messages.h"

namespace tenon::plugin {
namespace {

constexpr const char* kOtherInputs = "MXNet runs a graph with other inputs than it announced";

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

// Pointers to the sizes of each tensor in a signature.
std::vector<const int64_t*> shapes_in(const Signature& signature) {
  std::vector<const int64_t*> shapes;
  for (size_t at = 0; at < signature.size(); at += 2 + static_cast<size_t>(signature[at + 1]))
    shapes.push_back(&signature[at] + 2);
  return shapes;
}

// Whether the tensors from `first` on have these dtypes and ranks.
bool announced(const std::vector<const int64_t*>& shapes, const Tensors& given, int first) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    const size_t at = static_cast<size_t>(first) + i;
    if (given.dtypes[at] != shapes[i][-2] || given.ranks[at] != shapes[i][-1]) return false;
  }
  return true;
}

// Tensor i, of a shape that is known otherwise.
tenon_tensor view(const Tensors& tensors, int i, const int64_t* shape) {
  tenon_tensor out = tensors.view(i);
  out.shape = const_cast<int64_t*>(shape);
  return out;
}

bool is_float(const tenon_tensor& tensor) { return tensor.dtype.code == 2; }

tenon_status run(const Program& program, const std::vector<tenon_tensor>& inputs,
                 const std::vector<tenon_tensor>& outputs) {
  std::vector<const tenon_tensor*> pointers;
  for (const tenon_tensor& each : inputs) pointers.push_back(&each);
  for (const tenon_tensor& each : outputs) pointers.push_back(&each);
  return tenon_program_run(program.get(), pointers.data(), inputs.size(), pointers.data() + inputs.size(),
                           outputs.size());
}

}  // namespace

State* make_state(std::shared_ptr<Subgraph> subgraph, const unsigned* const* shapes, const int* ranks,
                  const int* dtypes, int count) {
  auto state = std::make_unique<State>();
  Signature& signature = state->signature;
  for (int i = 0; i < count; ++i) append(signature, dtypes[i], shapes[i], ranks[i]);
  state->shapes = shapes_in(signature);
  // With constant parameters, the program depends on their bytes, which the first run brings.
  if (!subgraph->frozen_at_once()) state->program = subgraph->programs.program(signature);
  state->subgraph = std::move(subgraph);
  return state.release();
}

void forward(State& state, const Tensors& given, const Tensors& outputs) {
  if (static_cast<size_t>(given.count) != state.shapes.size() || !announced(state.shapes, given, 0))
    throw Failure(kOtherInputs);
  if (state.subgraph->trains() && state.output_shapes.empty()) {
    for (int i = 0; i < outputs.count; ++i)
      append(state.output_signature, outputs.dtypes[i], outputs.shapes[i], outputs.ranks[i]);
    state.output_shapes = shapes_in(state.output_signature);
  }
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

void backward(State& state, const Tensors& given, const Tensors& gradients) {
  const size_t n = state.shapes.size(), heads = state.output_shapes.size();
  if (heads == 0) throw Failure("MXNet asks for a gradient before it runs the graph");
  const int first = static_cast<int>(heads);
  if (static_cast<size_t>(given.count) != heads + n + heads || static_cast<size_t>(gradients.count) != n ||
      !announced(state.output_shapes, given, 0) || !announced(state.shapes, given, first) ||
      !announced(state.shapes, gradients, 0))
    throw Failure(kOtherInputs);
  std::vector<tenon_tensor> inputs, outputs;
  for (int i = 0; i < gradients.count; ++i) {
    inputs.push_back(view(given, first + i, state.shapes[i]));
    const tenon_tensor gradient = view(gradients, i, state.shapes[i]);
    if (is_float(gradient))
      outputs.push_back(gradient);
    else
      std::memset(gradient.data, 0, bytes_of(gradient));
  }
  for (int i = 0; i < first; ++i) {
    const tenon_tensor head = view(given, i, state.output_shapes[i]);
    if (is_float(head)) inputs.push_back(head);
  }
  if (outputs.empty()) return;
  Programs& programs = state.subgraph->gradients;
  if (!state.gradients) state.gradients = programs.program(state.signature);
  const tenon_status status = run(state.gradients, inputs, outputs);
  if (status == TENON_OK) return;
  if (status != TENON_INVALID && status != TENON_UNSUPPORTED) throw Error(status);
  check(run(programs.exact(state.signature), inputs, outputs));
}

}  // namespace tenon::plugin
