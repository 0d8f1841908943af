// The subgraphs of this process. A subgraph is known by its text, so that a model loaded from a file needs nothing else.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/mxnet/run/frozen.h"
#include "bindings/mxnet/run/programs.h"
#include "bindings/mxnet/symbol.h"

namespace tenon::plugin {

class Subgraph {
 public:
  Subgraph(std::string_view json, const Options& options);

  bool is(std::string_view json, const Options& options) const {
    return options.training == options_.training && options.freeze == options_.freeze && json == json_;
  }
  const Symbol& symbol() const { return symbol_; }
  bool trains() const { return options_.training; }
  // Names an operator that behaves differently in training, and says so; "" if there is none.
  const std::string& training_refusal() const { return training_refusal_; }

  // The inputs that are or become constants.
  const std::vector<size_t>& parameters() const { return parameters_; }
  // Whether they are constants from the first call on.
  bool frozen_at_once() const { return options_.freeze == Freeze::always && !parameters_.empty(); }
  // The programs for these parameters, or null: they are no constants yet. Any thread.
  std::shared_ptr<Frozen> frozen(const Identity& identity, const Tensors& inputs);

 private:
  Graph graph(const Pattern& pattern, const std::vector<const tenon_tensor*>& parameters) const;
  Program compile(const Pattern& pattern, const std::vector<const tenon_tensor*>& parameters) const;

  const std::string json_;
  const Options options_;
  const Symbol symbol_;
  const std::vector<std::string> names_;  // of the variables, in order
  std::vector<size_t> parameters_;
  std::string training_refusal_;
  struct Known {
    Identity identity;
    int calls;                       // so far, while `frozen` is null
    std::shared_ptr<Frozen> frozen;  // null: its parameters are no constants yet
  };
  std::mutex lock_;            // of the members below
  std::vector<Known> recent_;  // the newest last
  int calls_to_settle_;

 public:
  Programs programs;  // without constant parameters
  // By the signature of the inputs. Inputs: the subgraph's, then the derivative by each float output. Outputs: the gradient by each
  // float input.
  Programs gradients;
};

// The subgraph of this text; parses it unless it is known. Any thread. Throws.
std::shared_ptr<Subgraph> subgraph_of(std::string_view json, const Options& options);

}  // namespace tenon::plugin
