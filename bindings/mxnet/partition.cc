#include "bindings/mxnet/partition.h"

#include <cstring>
#include <map>

#include "bindings/mxnet/messages.h"

namespace tenon::plugin {
namespace {

// With dedup_subgraph, a subgraph of MXNet 1.9 has each output once, but several readers of an output are still connected to outputs
// of their own, which do not exist.
void check_readers(const Symbol& symbol, const std::vector<int32_t>& parts) {
  std::map<std::pair<size_t, size_t>, int> readers;
  const auto count = [&](const std::vector<tenon_symbol_entry>& entries, int32_t reader) {
    for (const tenon_symbol_entry& e : entries)
      if (parts[e.node] >= 0 && parts[e.node] != reader && ++readers[{e.node, e.output}] > 1)
        throw Failure("with dedup_subgraph=True, MXNet 1.9 connects the readers of '" + symbol.name(e.node) +
                      "' wrongly; leave the option out");
  };
  for (size_t i = 0; i < parts.size(); ++i) count(symbol.inputs(i), parts[i]);
  count(symbol.heads(), -1);
}

}  // namespace

std::vector<int32_t> cut(std::string_view json, const Options& options) {
  const Symbol symbol(json);
  std::vector<int32_t> parts = symbol.partition(options.c());
  if (options.dedup) check_readers(symbol, parts);
  return parts;
}

Strings review(const Symbol& subgraph) {
  const std::vector<tenon_symbol_entry> heads = subgraph.heads();
  bool known = true;
  for (const tenon_symbol_entry& head : heads) {
    known = known && subgraph.attribute(head.node, "__ext_shape__");
    const char* dtype = subgraph.attribute(head.node, "dtype");
    if (dtype && (std::strcmp(dtype, "bool") == 0 || std::strcmp(dtype, "bfloat16") == 0))
      throw Failure("MXNet passes no tensors of dtype " + std::string(dtype) + " to plugins: '" +
                    subgraph.name(head.node) + "'");
  }
  if (known) return {};
  // Where shapes are unknown, MXNet 1.9 writes attributes that it cannot read again when another subgraph reads the second output.
  std::string shapes, dtypes;
  for (size_t i = 0; i < heads.size(); ++i) {
    shapes += i ? ",[None]" : "[None]";
    dtypes += i ? ",-1" : "-1";
  }
  return {{"__ext_shape__", "__ext_dtype__"}, {"[" + shapes + "]", "[" + dtypes + "]"}};
}

}  // namespace tenon::plugin
