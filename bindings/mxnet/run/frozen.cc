#include "bindings/mxnet/run/frozen.h"

#include <cstring>
#include <map>
#include <set>
#include <string>

namespace tenon::plugin {
namespace {

// Eight independent sums, which the processor computes at once.
uint64_t hash_of(const char* data, size_t bytes) {
  constexpr size_t kLanes = 8;
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15ull;
  uint64_t lanes[kLanes] = {bytes, 1, 2, 3, 4, 5, 6, 7}, words[kLanes] = {};
  const auto add = [&](const char* from, size_t count) {
    std::memcpy(words, from, count);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = (lanes[lane] ^ words[lane]) * kFactor;
      lanes[lane] ^= lanes[lane] >> 32;
    }
  };
  size_t at = 0;
  for (; at + sizeof words <= bytes; at += sizeof words) add(data + at, sizeof words);
  if (at < bytes) add(data + at, bytes - at);
  uint64_t all = 0;
  for (const uint64_t lane : lanes) all = (all ^ lane) * kFactor + (all >> 29);
  return all;
}

}  // namespace

std::vector<size_t> parameters_of(const Symbol& symbol) {
  // Operators whose operands from the second on are parameters.
  static const auto* const owners =
      new std::set<std::string>{"Convolution", "Deconvolution", "FullyConnected", "BatchNorm",
                                "LayerNorm",   "InstanceNorm",  "GroupNorm",      "Embedding"};
  std::map<size_t, bool> only_parameter;  // variable -> whether every reader takes it as a parameter
  const auto read = [&](size_t node, bool parameter) {
    const auto [at, first] = only_parameter.emplace(node, parameter);
    if (!first) at->second = at->second && parameter;
  };
  for (size_t i = 0; i < symbol.node_count(); ++i) {
    const std::vector<tenon_symbol_entry> inputs = symbol.inputs(i);
    const bool owner = owners->count(symbol.op(i)) > 0;
    for (size_t k = 0; k < inputs.size(); ++k) read(inputs[k].node, owner && k > 0);
  }
  for (const tenon_symbol_entry& head : symbol.heads()) read(head.node, false);
  std::vector<size_t> parameters;
  for (size_t i = 0, variable = 0; i < symbol.node_count(); ++i) {
    if (symbol.op(i) != "null") continue;
    const auto found = only_parameter.find(i);
    if (found != only_parameter.end() && found->second) parameters.push_back(variable);
    ++variable;
  }
  return parameters;
}

Identity identity_of(const std::vector<size_t>& parameters, const Tensors& inputs) {
  constexpr size_t kSamples = 16, kSmall = 16 << 10;
  Identity identity;
  identity.reserve(parameters.size() * (3 + kSamples));
  for (const size_t i : parameters) {
    const size_t bytes = bytes_of(inputs.view(static_cast<int>(i)));
    const char* data = static_cast<const char*>(inputs.data[i]);
    identity.push_back(bytes);
    const size_t version = inputs.versions ? inputs.versions[i] : 0;
    // MXNet counts a write of statistics in every run. A parameter without writes is a copy that MXNet makes for this call
    // of a parameter in oneDNN's layout.
    if (bytes <= kSmall || version == 0) {
      identity.push_back(hash_of(data, bytes));
      continue;
    }
    identity.push_back(reinterpret_cast<uintptr_t>(data));
    identity.push_back(version);
    for (size_t sample = 0; sample < kSamples; ++sample) {
      uint64_t word;
      std::memcpy(&word, data + (bytes - 8) * sample / (kSamples - 1), 8);
      identity.push_back(word);
    }
  }
  return identity;
}

Frozen::Frozen(const std::vector<size_t>& parameters, const Tensors& inputs, Compile compile)
    : copies_(parameters.size()),
      views_(static_cast<size_t>(inputs.count), nullptr),
      programs(
          [this, compile = std::move(compile)](const Pattern& pattern) { return compile(pattern, views_); }) {
  for (size_t k = 0; k < parameters.size(); ++k) {
    const int i = static_cast<int>(parameters[k]);
    Copy& copy = copies_[k];
    copy.input = parameters[k];
    copy.dtype = inputs.dtypes[i];
    copy.view = inputs.view(i);
    copy.shape.assign(inputs.shapes[i], inputs.shapes[i] + inputs.ranks[i]);
    const size_t bytes = bytes_of(copy.view);
    copy.bytes.resize((bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
    std::memcpy(copy.bytes.data(), inputs.data[i], bytes);
    copy.view.data = copy.bytes.data();
    copy.view.shape = copy.shape.data();
    views_[parameters[k]] = &copy.view;
  }
}

bool Frozen::equals(const Tensors& inputs) const {
  for (const Copy& copy : copies_) {
    const size_t i = copy.input;
    if (inputs.dtypes[i] != copy.dtype || static_cast<size_t>(inputs.ranks[i]) != copy.shape.size() ||
        !std::equal(copy.shape.begin(), copy.shape.end(), inputs.shapes[i]) ||
        std::memcmp(copy.bytes.data(), inputs.data[i], bytes_of(copy.view)) != 0)
      return false;
  }
  return true;
}

}  // namespace tenon::plugin
