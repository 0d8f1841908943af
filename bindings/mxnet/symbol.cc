#include "bindings/mxnet/symbol.h"

namespace tenon::plugin {

tenon_symbol_options Options::c() const {
  auto c = init<tenon_symbol_options>();
  c.training = training;
  c.min_nodes = min_nodes;
  c.op_names = op_names.empty() ? nullptr : op_names.c_str();
  return c;
}

Symbol::Symbol(std::string_view json) : tenon::Symbol(tenon::Symbol::parse(std::string(json))) {}

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
  for (const SymbolAnswer& answer : query(options.c()))
    if (!answer.translated) return answer.op + " '" + answer.name + "': " + answer.why;
  return {};
}

}  // namespace tenon::plugin
