#include "bindings/mxnet/run/subgraph.h"

#include <algorithm>

#include "bindings/mxnet/messages.h"

namespace tenon::plugin {

constexpr size_t kMostIdentities = 8;
// So many calls with the same parameters come before they are constants. Parameters that have changed since need twice as many, so
// that packing takes little of the time even where they change again and again.
constexpr int kCallsToSettle = 2, kMostCallsToSettle = 1 << 16;

Subgraph::Subgraph(std::string_view json, const Options& options)
    : json_(json),
      options_(options),
      symbol_(json),
      names_(symbol_.variables()),
      programs([this](const Pattern& pattern) { return compile(pattern, {}); }),
      gradients([this](const Pattern& pattern) {
        auto heads = init<tenon_gradient_options>();
        heads.heads = 1;
        return Program(graph(pattern, {}).gradient(heads));
      }) {
  if (const std::string why = symbol_.refusal(options_); !why.empty())
    throw Failure("Tenon does not run " + why);
  Options training = options_;
  training.training = true;
  training_refusal_ = symbol_.refusal(training);
  if (options_.freeze != Freeze::never && !options_.training) parameters_ = parameters_of(symbol_);
  calls_to_settle_ = options_.freeze == Freeze::always ? 0 : kCallsToSettle;
}

std::shared_ptr<Frozen> Subgraph::frozen(const Identity& identity, const Tensors& inputs) {
  const std::lock_guard guard(lock_);
  auto known = std::ranges::find(recent_, identity, &Known::identity);
  if (known == recent_.end()) {
    if (recent_.size() == kMostIdentities) recent_.erase(recent_.begin());
    known = recent_.insert(recent_.end(), Known{identity, 0, nullptr});
    for (const Known& other : recent_)
      if (!known->frozen && other.frozen && other.frozen->equals(inputs)) known->frozen = other.frozen;
  }
  if (known->frozen || known->calls++ < calls_to_settle_) return known->frozen;
  if (calls_to_settle_ < kMostCallsToSettle) calls_to_settle_ *= 2;
  known->frozen = std::make_shared<Frozen>(
      parameters_, inputs,
      [this](const Pattern& pattern, const std::vector<const tenon_tensor*>& parameters) {
        return compile(pattern, parameters);
      });
  return known->frozen;
}

Graph Subgraph::graph(const Pattern& pattern, const std::vector<const tenon_tensor*>& parameters) const {
  const std::vector<InputType> types = input_types(pattern);
  if (types.size() != names_.size())
    throw Failure("the subgraph has " + std::to_string(names_.size()) + " inputs, MXNet passes " +
                  std::to_string(types.size()));
  std::vector<SymbolInput> inputs;
  for (size_t i = 0; i < types.size(); ++i) {
    inputs.emplace_back(names_[i], types[i].dtype, types[i].dims);
    inputs.back().param = i < parameters.size() && parameters[i] != nullptr;
  }
  return symbol_.graph(inputs, options_.c());
}

Program Subgraph::compile(const Pattern& pattern, const std::vector<const tenon_tensor*>& parameters) const {
  const Graph compiled = graph(pattern, parameters);
  auto options = init<tenon_program_options>();
  options.freeze = !parameters.empty();
  tenon_program* program = nullptr;
  check(tenon_program_create(compiled.get(), &options, parameters.empty() ? nullptr : parameters.data(),
                             parameters.size(), &program));
  return Program(program);
}

}  // namespace tenon::plugin
