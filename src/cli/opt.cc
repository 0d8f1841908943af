// tenon opt: text of a graph in, the named passes in the order given, text out. Tested by tests/cli_test.py.
#include <algorithm>
#include <cstdio>

#include "src/base/text.h"
#include "src/cli/verbs.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/passes/pipeline.h"

namespace tenon::cli {

int opt(const OptArgs& args) {
  std::vector<const NamedPass*> passes;
  for (const std::string& name : args.passes) {
    const auto& known = named_passes();
    auto it = std::find_if(known.begin(), known.end(), [&](const NamedPass& p) { return p.name == name; });
    if (it == known.end()) {
      Nearest nearest(name);
      std::string all;
      for (const NamedPass& p : known) nearest.offer(p.name), all += " " + std::string(p.name);
      return misuse("no pass is called " + name + nearest.hint() + "\nthere are:" + all);
    }
    passes.push_back(&*it);
  }
  if (const Status known = check_without(args.without); !known.ok()) return misuse(known.message());
  auto graph = read_graph(args.file);
  if (!graph.ok()) return fail(graph.status());
  Status sound = verify(*graph);
  if (!sound.ok()) return fail(sound);
  for (const NamedPass* pass : passes) {
    Graph next = pass->name == "optimize" ? optimize(*graph, args.without) : pass->run(*graph);
    *graph = std::move(next);
    sound = verify(*graph);
    if (!sound.ok())
      return fail(Status(Code::internal, "after " + std::string(pass->name) + ":\n" + sound.message()));
  }
  const std::string text = print(*graph);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kDone;
}

}  // namespace tenon::cli
