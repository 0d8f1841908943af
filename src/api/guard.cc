// See guard.h. Tested by tests/abi/capi*.c.
#include "src/api/guard.h"
#include "src/base/build_id.h"

#include <memory>
#include <mutex>

#include "src/backend/backend.h"
#include "src/base/build_id.h"

namespace tenon::api {
namespace {

thread_local std::string last_error;

}  // namespace

tenon_status report(const Status& status) {
  if (status.ok()) return TENON_OK;
  try {
    last_error = status.message();
  } catch (...) {
    last_error.clear();
  }
  return static_cast<tenon_status>(status.code());
}

Status write_text(const std::string& text, const char* function, char* buffer, size_t capacity,
                  size_t* length) {
  const std::string who = function;
  if (!length) return invalid(who + ": length is NULL");
  *length = text.size();
  if (capacity == 0) return {};
  if (!buffer) return invalid(who + ": buffer is NULL");
  if (capacity <= text.size())
    return invalid(who + ": the text needs " + std::to_string(text.size() + 1) + " bytes, given " +
                   std::to_string(capacity));
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return {};
}

Status check_finished(const tenon_graph* graph, const char* function) {
  if (!graph) return invalid(std::string(function) + ": graph is NULL");
  if (!graph->finished)
    return invalid(std::string(function) + ": graph @" + graph->graph.name + " is not finalized");
  return {};
}

Status read_tensor(const tenon_tensor* given, const char* what, size_t position, Tensor* out) {
  auto who = [&] { return std::string(what) + " " + std::to_string(position); };
  out->device = {given->device.type, given->device.id};
  const auto dtype = dtype_from_dlpack(given->dtype.code, given->dtype.bits);
  if (!dtype || given->dtype.lanes != 1)
    return invalid(who() + " has dtype code " + std::to_string(given->dtype.code) + ", " +
                   std::to_string(given->dtype.bits) + " bits, " + std::to_string(given->dtype.lanes) +
                   " lanes");
  if (given->ndim < 0 || given->ndim > kMaxRank)
    return invalid(who() + " has rank " + std::to_string(given->ndim));
  if (given->ndim > 0 && !given->shape) return invalid(who() + " has no shape");
  const size_t rank = static_cast<size_t>(given->ndim);
  // As a number, because an offset may wrap around.
  out->data = given->data
                  ? reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(given->data) + given->byte_offset)
                  : nullptr;
  out->dtype = *dtype;
  out->shape = {given->shape, rank};
  out->strides = given->strides ? std::span<const int64_t>(given->strides, rank) : std::span<const int64_t>();
  return {};
}

}  // namespace tenon::api

extern "C" {

uint32_t tenon_version(void) { return TENON_VERSION_MAJOR << 16 | TENON_VERSION_MINOR; }
const char* tenon_version_string(void) { return "0.1.0"; }
const char* tenon_last_error(void) { return tenon::api::last_error.c_str(); }
void tenon_clear_error(void) { tenon::api::last_error.clear(); }

const char* tenon_status_name(tenon_status status) {
  if (status < TENON_OK || status > TENON_INTERNAL) return "unknown";
  return tenon::code_name(static_cast<tenon::Code>(status));
}

const char* tenon_build_info(void) {
  static const std::string* info = nullptr;
  static std::once_flag once;
  try {
    std::call_once(once, [] {
      auto text = std::make_unique<std::string>(std::string("tenon ") + tenon_version_string() + "\n");
      *text += "build " + tenon::build_id() + "\n";
      for (tenon::Backend* b : tenon::all_backends())
        *text += std::string(b->name()) + ": " + b->describe() + "\n";
      info = text.release();
    });
  } catch (...) {
    return "";
  }
  return info->c_str();
}
}
