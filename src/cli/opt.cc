// tenon opt: reads the text of a graph or kernel, runs the named passes in the given order, and prints the
// result. Tested by tests/cli_test.py.
#include <algorithm>
#include <cstdio>

#include "src/base/text.h"
#include "src/cli/verbs.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/passes/pipeline.h"
#include "src/runtime/compile/placement.h"

namespace tenon::cli {
namespace {

// Each pass runs on every kernel that the previous pass has made.
int opt_kernel(const OptArgs& args) {
  const Backend* backend = find_backend("cpu");
  if (!backend) return fail(unsupported("this build compiles no kernels"));
  auto text = read_file(args.file);
  if (!text.ok()) return fail(text.status());
  for (const std::string& pass : args.kernel_passes) {
    std::string made;
    for (size_t at = 0; at < text->size();) {
      const size_t next = std::min(text->find("\nkernel @", at), text->size() - 1) + 1;
      auto kernels = backend->run_kernel_pass(pass, std::string_view(*text).substr(at, next - at));
      if (!kernels.ok()) return fail(kernels.status());
      made += *kernels;
      at = next;
    }
    *text = std::move(made);
  }
  std::fwrite(text->data(), 1, text->size(), stdout);
  return kDone;
}

}  // namespace

int opt(const OptArgs& args) {
  if (!args.kernel_passes.empty()) return opt_kernel(args);
  std::vector<const NamedPass*> passes;
  for (const std::string& name : args.passes) {
    const auto& known = named_passes();
    auto it = std::find_if(known.begin(), known.end(), [&](const NamedPass& p) { return p.name == name; });
    if (it == known.end()) {
      Nearest nearest(name);
      for (const NamedPass& p : known) nearest.offer(p.name);
      return misuse(nearest.message("pass"));
    }
    passes.push_back(&*it);
  }
  if (const Status known = check_without(args.without); !known.ok()) return misuse(known.message());
  std::vector<std::string> inputs = args.inputs;
  auto model = read_model(args.file, inputs, args.params);
  if (!model.ok()) return fail(model.status());
  Graph* const graph = &model->graph;
  Status sound = verify(*graph);
  if (!sound.ok()) return fail(sound);
  const BackendPlacement placement(backends_of(DeviceId::kCpu), DeviceId::kCpu);
  for (const NamedPass* pass : passes) {
    *graph = pass->run(*graph, placement, args.without);
    sound = verify(*graph);
    if (!sound.ok())
      return fail(Status(Code::internal, "after " + std::string(pass->name) + ":\n" + sound.message()));
  }
  const std::string text = print(*graph);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kDone;
}

}  // namespace tenon::cli
