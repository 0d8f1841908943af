// A back end that interprets its kernels: every address is checked, and graphs need no compiler. A test executable that defines
// the list of back ends itself (backends/list.cc) may use it in place of the CPU back end. Used by tests/unit/jit/analysis/index_test.cc.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jit/group_kernels.h"
#include "jit/kernel/kernel.h"
#include "jit/pipeline.h"
#include "src/backend/backend.h"
#include "src/base/align.h"
#include "src/ir/group.h"

namespace tenon {

class InterpretedStep final : public Step {
 public:
  struct Launch {
    const jit::Kernel* kernel;
    std::vector<int64_t> sizes;
    jit::Arguments arguments;
    std::vector<int64_t> lengths;  // of the arguments, in elements
  };
  std::vector<Launch> launches;
  int64_t scratch = 0;

  int64_t scratch_bytes() const override { return scratch; }
  int64_t bytes() const override { return 0; }
  Status run(void* const* buffers, char* temporaries, const RunOn&) const override {
    for (const Launch& launch : launches) {
      std::vector<jit::BufferView> views;
      for (size_t a = 0; a < launch.lengths.size(); ++a)
        views.push_back({launch.arguments.list[a].at(buffers, temporaries), launch.lengths[a]});
      TENON_TRY(jit::interpret(*launch.kernel, views, launch.sizes));
    }
    return {};
  }
};

class InterpretedGroup final : public Executable {
 public:
  std::vector<jit::LoweredKernel> kernels;
  std::vector<std::vector<int>> positions;
  std::vector<std::vector<std::pair<Dims, Dims>>> layouts;  // per kernel and buffer: shape and strides

  Result<std::unique_ptr<Step>> prepare(const Sizes& sizes) override {
    auto step = std::make_unique<InterpretedStep>();
    for (size_t k = 0; k < kernels.size(); ++k) {
      const jit::LoweredKernel& lowered = kernels[k];
      InterpretedStep::Launch launch{
          &lowered.kernel,
          sizes.eval(lowered.sizes),
          jit::arguments(lowered, positions[k], [&](Dim d) { return sizes.eval(d); }),
          {}};
      step->scratch = std::max(step->scratch, launch.arguments.temps);
      for (size_t b = 0; b < lowered.buffers.size(); ++b) {
        if (const auto* temp = std::get_if<jit::TempId>(&lowered.buffers[b])) {
          launch.lengths.push_back(sizes.eval(lowered.temp(*temp).length));
          continue;
        }
        int64_t length = 1;
        const auto shape = sizes.eval(layouts[k][b].first), strides = sizes.eval(layouts[k][b].second);
        for (size_t d = 0; d < shape.size(); ++d) length += (shape[d] - 1) * strides[d];
        if (std::count(shape.begin(), shape.end(), 0)) length = 0;
        launch.lengths.push_back(length);
      }
      step->launches.push_back(std::move(launch));
    }
    return std::unique_ptr<Step>(std::move(step));
  }
  std::string describe() const override { return jit::print(kernels); }
  int kernel_count() const override { return static_cast<int>(kernels.size()); }
};

class InterpreterBackend final : public Backend {
 public:
  jit::Target target = jit::Target::cpu;  // the target of lowering

  std::string_view name() const override { return "interpreter"; }
  bool runs_loops() const override { return true; }
  Bid bid(const Graph& graph, ValueId v) const override {
    return Bid::at(1, "runs as loops", jit::has_loops(graph, v));
  }
  Bid joins(const Graph& graph, const Uses& uses, std::span<const ValueId> members,
            ValueId v) const override {
    return Bid::at(1, "one schedule covers it", jit::may_join(graph, uses, members, v, target));
  }
  Result<std::vector<std::unique_ptr<Executable>>> build(
      const BuildContext& context, std::span<const std::vector<ValueId>> groups) override {
    const Graph& g = context.graph;
    const Uses uses(g);
    std::vector<std::unique_ptr<Executable>> built;
    for (const std::vector<ValueId>& members : groups) {
      auto group = std::make_unique<InterpretedGroup>();
      group->inputs = inputs_of(g, members);
      group->outputs = outputs_of(g, uses, members);
      auto strides = [&](ValueId v) { return context.strides_of(v); };
      TENON_ASSIGN(group->kernels, jit::make_kernels({g, members, group->outputs, strides, target}));
      group->positions = jit::positions(group->kernels, group->inputs, group->outputs);
      group->inplace = jit::inplace(group->kernels, group->inputs, group->outputs);
      for (const jit::LoweredKernel& k : group->kernels) {
        const Status valid = jit::verify(k.kernel);
        TENON_CHECK(valid.ok(), valid.message() + "\n" + jit::print(k.kernel));
        auto& list = group->layouts.emplace_back();
        for (jit::BufferId b : k.buffers) {
          const auto* v = std::get_if<ValueId>(&b);
          list.push_back(v ? std::pair(g.type(*v).shape, context.layouts[*v].strides)
                           : std::pair<Dims, Dims>());
        }
      }
      built.push_back(std::move(group));
    }
    return built;
  }
  std::string describe() const override { return "interpreter"; }
};

}  // namespace tenon
