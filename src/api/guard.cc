// See guard.h. Tested by tests/capi.c.
#include "src/api/guard.h"

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

Status read_tensor(const tenon_tensor* given, const char* what, size_t position, Tensor* out) {
  auto who = [&] { return std::string(what) + " " + std::to_string(position); };
  if (given->device.type != 1)
    return invalid(who() + " is on device type " + std::to_string(given->device.type) + ", not on the CPU");
  const auto dtype = dtype_from_dlpack(given->dtype.code, given->dtype.bits);
  if (!dtype || given->dtype.lanes != 1)
    return invalid(who() + " has dtype code " + std::to_string(given->dtype.code) + ", " +
                   std::to_string(given->dtype.bits) + " bits, " + std::to_string(given->dtype.lanes) + " lanes");
  if (given->ndim < 0 || given->ndim > kMaxRank) return invalid(who() + " has rank " + std::to_string(given->ndim));
  if (given->ndim > 0 && !given->shape) return invalid(who() + " has no shape");
  const size_t rank = static_cast<size_t>(given->ndim);
  out->data = given->data ? static_cast<char*>(given->data) + given->byte_offset : nullptr;
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
}
