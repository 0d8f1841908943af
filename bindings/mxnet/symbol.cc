#include "bindings/mxnet/symbol.h"

namespace tenon::plugin {

tenon_symbol_options Options::c() const {
  auto c = init<tenon_symbol_options>();
  c.training = training;
  c.min_nodes = min_nodes;
  c.op_names = op_names.empty() ? nullptr : op_names.c_str();
  return c;
}

Symbol Symbol::parse(std::string_view json) {
  tenon_symbol* out = nullptr;
  check(tenon_symbol_parse(json.data(), json.size(), &out));
  return Symbol(out);
}

std::string Symbol::op(size_t node) const {
  const char* text = nullptr;
  check(tenon_symbol_node(get(), node, &text, nullptr));
  return text;
}

std::string Symbol::name(size_t node) const {
  const char* text = nullptr;
  check(tenon_symbol_node(get(), node, nullptr, &text));
  return text;
}

const char* Symbol::attribute(size_t node, const char* key) const {
  const char* text = nullptr;
  check(tenon_symbol_attribute(get(), node, key, &text));
  return text;
}

std::vector<tenon_symbol_entry> Symbol::inputs(size_t node) const {
  size_t count = 0;
  check(tenon_symbol_entries(get(), node, nullptr, 0, &count));
  std::vector<tenon_symbol_entry> entries(count);
  check(tenon_symbol_entries(get(), node, entries.data(), count, &count));
  return entries;
}

std::string Symbol::refusal(const Options& options) const {
  std::string first;
  const tenon_symbol_options c = options.c();
  check(tenon_symbol_query(
      get(), &c,
      [](void* user, size_t, const char* name, const char* op, int32_t translated, const char* why) {
        std::string& out = *static_cast<std::string*>(user);
        if (!translated && out.empty()) out = std::string(op) + " '" + name + "': " + why;
      },
      &first));
  return first;
}

std::vector<int32_t> Symbol::partition(const Options& options) const {
  const tenon_symbol_options c = options.c();
  std::vector<int32_t> parts(nodes());
  check(tenon_symbol_partition(get(), &c, parts.data(), parts.size()));
  return parts;
}

}  // namespace tenon::plugin
