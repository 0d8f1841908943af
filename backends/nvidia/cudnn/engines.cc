// See engines.h.
#include "backends/nvidia/cudnn/engines.h"

#include <algorithm>

namespace tenon::cudnn {
namespace {

struct Notes {
  bool fits = true, compiles = false;
};
Result<Notes> notes_of(const Library& library, const Descriptor& config, bool tensor_cores) {
  TENON_ASSIGN(const Descriptor engine, Descriptor::make(library, kDnnEngine, "an engine"));
  DnnDescriptor raw = engine.raw();  // get() fills in this descriptor
  TENON_TRY(config.get(kDnnEngineConfigEngine, kDnnTypeDescriptor, 1, &raw).status());
  int32_t list[kDnnMostNotes] = {};
  Notes notes;
  TENON_ASSIGN(int64_t count, engine.get(kDnnEngineBehavior, kDnnTypeBehavior, kDnnMostNotes, list));
  for (int64_t i = 0; i < std::min<int64_t>(count, kDnnMostNotes); ++i)
    notes.compiles = notes.compiles || list[i] == kDnnCompilesAtRunTime;
  TENON_ASSIGN(count, engine.get(kDnnEngineNumerics, kDnnTypeNumerics, kDnnMostNotes, list));
  for (int64_t i = 0; i < std::min<int64_t>(count, kDnnMostNotes); ++i)
    if (list[i] == kDnnNondeterministic || list[i] == kDnnDownConverts || list[i] == kDnnReducedPrecision ||
        (list[i] == kDnnTensorCore && !tensor_cores))
      notes.fits = false;
  return notes;
}

// The engine configurations that the heuristics name, the best first; empty if there are none.
Result<std::vector<Descriptor>> named(const Library& library, const Target& target, const Descriptor& graph,
                                      DnnHeuristic mode) {
  std::vector<Descriptor> list;
  TENON_ASSIGN(Descriptor heuristics, Descriptor::make(library, kDnnHeuristics, "heuristics"));
  TENON_TRY(heuristics.set(kDnnHeuristicsGraph, graph));
  TENON_TRY(heuristics.set(kDnnHeuristicsMode, kDnnTypeHeuristic, mode));
  if (target.device) TENON_TRY(heuristics.set(kDnnHeuristicsDevice, *target.device));
  const Status status = heuristics.finalize();
  if (status.code() == Code::unsupported) return list;
  TENON_TRY(status);
  TENON_ASSIGN(int64_t count, heuristics.get(kDnnHeuristicsResults, kDnnTypeDescriptor, 0, nullptr));
  std::vector<DnnDescriptor> raw;
  for (int64_t i = 0; i < count; ++i) {
    TENON_ASSIGN(Descriptor config, Descriptor::make(library, kDnnEngineConfig, "an engine's configuration"));
    raw.push_back(config.raw());
    list.push_back(std::move(config));
  }
  if (count == 0) return list;
  TENON_ASSIGN(count, heuristics.get(kDnnHeuristicsResults, kDnnTypeDescriptor, count, raw.data()));
  while (static_cast<int64_t>(list.size()) > count) list.pop_back();
  return list;
}

}  // namespace

Result<std::unique_ptr<Descriptor>> make_plan(const Library& library, const Target& target,
                                              const Descriptor& config, Status* refused) {
  TENON_ASSIGN(Descriptor made, Descriptor::make(library, kDnnPlan, "its plan"));
  if (target.handle) TENON_TRY(made.set(kDnnPlanHandle, kDnnTypeHandle, target.handle));
  if (target.device) TENON_TRY(made.set(kDnnPlanDevice, *target.device));
  TENON_TRY(made.set(kDnnPlanEngineConfig, config));
  *refused = made.finalize();
  std::unique_ptr<Descriptor> kept;
  if (refused->ok()) kept = std::make_unique<Descriptor>(std::move(made));
  return kept;
}

Result<std::unique_ptr<Engine>> find_engine(const Library& library, const Target& target,
                                            const Descriptor& graph, bool tensor_cores,
                                            int64_t most_workspace, Status* refused) {
  std::unique_ptr<Engine> found;
  const auto takes = [&](Descriptor& config) -> Status {
    Status no;
    TENON_ASSIGN(std::unique_ptr<Descriptor> made, make_plan(library, target, config, &no));
    int64_t workspace = 0;
    if (made) TENON_TRY(made->get(kDnnPlanWorkspace, kDnnTypeInt64, 1, &workspace).status());
    if (workspace > most_workspace)
      no = unsupported("an engine wants " + std::to_string(workspace) + " bytes of workspace, and " +
                       std::to_string(most_workspace) + " are there");
    if (no.ok())
      found = std::make_unique<Engine>(Engine{std::move(config), workspace, std::move(made)});
    else if (refused->ok() || (refused->code() == Code::unsupported && no.code() != Code::unsupported))
      *refused = std::move(no);
    return {};
  };
  std::vector<Descriptor> compiling;
  for (DnnHeuristic mode : {kDnnModeA, kDnnFallback}) {
    TENON_ASSIGN(std::vector<Descriptor> list, named(library, target, graph, mode));
    for (Descriptor& config : list) {
      TENON_ASSIGN(const Notes notes, notes_of(library, config, tensor_cores));
      if (!notes.fits) continue;
      if (notes.compiles) {
        compiling.push_back(std::move(config));
        continue;
      }
      TENON_TRY(takes(config));
      if (found) return found;
    }
  }
  for (Descriptor& config : compiling) {
    TENON_TRY(takes(config));
    if (found) return found;
  }
  return found;
}

}  // namespace tenon::cudnn
