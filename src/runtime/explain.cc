// See explain.h. Tested by tests/unit/runtime/run_test.cc.
#include "src/runtime/explain.h"

#include <utility>

#include "src/base/text.h"
#include "src/ir/group.h"
#include "src/ir/text.h"

namespace tenon {
namespace {

// The names of the inputs whose updates are copied after all other steps.
std::vector<std::string> copied_updates(const Graph& g, const PlanSource& source) {
  std::vector<std::string> names;
  for (int o : source.copies.to) names.push_back(g.value_name(g.inputs[*g.outputs[o].updates].value));
  return names;
}

}  // namespace

std::string explain(const Graph& g, const PlanSource& source, const Plan* plan, bool json) {
  auto members = members_of_groups(g);
  std::string out;
  if (json) {
    out = "{\"graph\": " + json_quoted(print(g, {.data_limit = 16})) + ", \"steps\": [";
    for (size_t i = 0; i < members.size(); ++i) {
      out += (i ? ", " : "") + std::string("{\"backend\": ") + json_quoted(g.groups[i].backend) +
             ", \"nodes\": [";
      for (size_t k = 0; k < members[i].size(); ++k)
        out += (k ? ", " : "") + json_quoted(g.value_name(members[i][k]) + " = " +
                                             std::string(op(g.node(members[i][k]).op).name));
      out += "], \"why\": " + json_quoted(g.groups[i].why) +
             ", \"runs\": " + json_quoted(source.executables[i]->describe()) + "}";
    }
    out += "], \"copied_updates\": [";
    for (const char* comma = ""; const std::string& name : copied_updates(g, source))
      out += std::exchange(comma, ", ") + json_quoted(name);
    out += "], \"recomputed_steps\": " + std::to_string(source.recomputed.steps);
    out += ", \"reference_steps\": " + std::to_string(source.reference_steps());
    if (plan)
      out += ", \"workspace_bytes\": " + std::to_string(plan->workspace_bytes()) +
             ", \"intermediate_bytes\": " + std::to_string(plan->intermediate_bytes()) +
             ", \"unshared_bytes\": " + std::to_string(plan->unshared_bytes()) +
             ", \"donated_bytes\": " + std::to_string(plan->donated_bytes()) +
             ", \"output_bytes\": " + std::to_string(plan->output_bytes());
    return out + "}";
  }
  out = print(g, {.data_limit = 16}) + "\n";
  for (size_t i = 0; i < members.size(); ++i) {
    out += "step " + std::to_string(i) + " (" + g.groups[i].backend + "):";
    for (ValueId v : members[i]) out += " " + std::string(op(g.node(v).op).name);
    out += "\n";
    const char* what = g.groups[i].again ? "  runs again because " : "  ends here because ";
    if (!g.groups[i].why.empty()) out += what + g.groups[i].why + "\n";
    std::string text = source.executables[i]->describe();
    for (size_t at = 0; at < text.size();) {
      size_t end = text.find('\n', at);
      if (end == std::string::npos) end = text.size();
      out += "  " + text.substr(at, end - at) + "\n";
      at = end + 1;
    }
  }
  if (const auto copied = copied_updates(g, source); !copied.empty()) {
    out += "updates that are copied after all steps, not written in place:";
    for (const std::string& name : copied) out += " " + name;
    out += "\n";
  }
  if (const Recomputed& again = source.recomputed; again.steps > 0)
    out += "recomputed: " + std::to_string(again.steps) + " steps, so that " + std::to_string(again.after) +
           " bytes of intermediates are alive at once instead of " + std::to_string(again.before) + "\n";
  if (const int slow = source.reference_steps())
    out += "reference steps: " + std::to_string(slow) + ", evaluated element by element\n";
  if (plan)
    out += "planned workspace: " + std::to_string(plan->workspace_bytes()) + " bytes, intermediates " +
           std::to_string(plan->intermediate_bytes()) + " bytes, without sharing " +
           std::to_string(plan->unshared_bytes()) + " bytes" +
           (plan->donated_bytes() ? ", in donated inputs " + std::to_string(plan->donated_bytes()) + " bytes"
                                  : "") +
           (plan->output_bytes() ? ", in outputs " + std::to_string(plan->output_bytes()) + " bytes" : "") +
           "\n";
  return out;
}

}  // namespace tenon
