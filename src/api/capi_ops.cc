// The op functions of tenon.h: reading the table, and adding rows. Tested by tests/abi/capi*.c.
#include "src/api/guard.h"
#include "src/base/text.h"
#include "src/ir/op.h"
#include "src/ops/graph_body.h"
#include "src/ops/rules/rules.h"

using tenon::api::guarded;

namespace {

// The strings of rows are literals or kept strings, which end with a zero byte, or they are empty.
const char* text(std::string_view view) { return view.data() ? view.data() : ""; }

}  // namespace

extern "C" {

size_t tenon_op_count(void) {
  try {
    return static_cast<size_t>(tenon::op_count());
  } catch (...) {
    return 0;
  }
}

const char* tenon_op_name(size_t index) {
  try {
    if (index >= static_cast<size_t>(tenon::op_count())) return nullptr;
    return text(tenon::op(static_cast<tenon::OpId>(index)).name);
  } catch (...) {
    return nullptr;
  }
}

tenon_status tenon_op_describe(const char* name, tenon_op_info* out) {
  return guarded([&]() -> tenon::Status {
    if (!name || !out) return tenon::invalid("tenon_op_describe: name and out must not be NULL");
    auto id = tenon::find_op(name);
    if (!id) {
      tenon::Nearest nearest(name);
      for (int i = 0; i < tenon::op_count(); ++i) nearest.offer(tenon::op(static_cast<tenon::OpId>(i)).name);
      return tenon::invalid("unknown op '" + std::string(name).substr(0, 80) + "'" + nearest.hint());
    }
    const tenon::Op& row = tenon::op(*id);
    const tenon_op_info full = {0,
                                text(row.name),
                                text(tenon::kind_name(row.kind)),
                                text(row.attrs),
                                text(row.doc),
                                row.arity,
                                row.optional,
                                row.ulp,
                                row.type == tenon::types::to_bool,
                                row.type == tenon::types::indexed ? TENON_FAULT_INDEX
                                : row.fault.what.empty()          ? TENON_FAULT_NEVER
                                                                  : TENON_FAULT_INTEGER};
    return tenon::api::write_struct(full, "tenon_op_info", out);
  });
}

tenon_status tenon_op_register(const tenon_op_desc* desc) {
  return guarded([&]() -> tenon::Status {
    if (!desc) return tenon::invalid("tenon_op_register: desc is NULL");
    tenon_op_desc given;
    TENON_TRY(tenon::api::read_struct(desc, "tenon_op_desc", &given));
    if (!given.name || !given.body || !given.doc)
      return tenon::invalid("tenon_op_register: name, body and doc must not be NULL");
    auto id = tenon::register_graph_body(given.name, given.arity, given.attrs ? given.attrs : "", given.body,
                                         given.doc);
    return id.ok() ? tenon::Status() : id.status();
  });
}
}
