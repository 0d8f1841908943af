// guard: the code around the body of every exported function. It turns exceptions into statuses and statuses
// into codes and the thread's last error, and checks NULLs, struct sizes and tensors. Tested by
// tests/abi/capi*.c.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/ir/builder.h"
#include "src/runtime/program.h"
#include "tenon/tenon.h"

namespace tenon::api {

tenon_status report(const Status& status);  // sets the thread's last error on failure

template <class Body>
tenon_status guarded(Body&& body) noexcept {
  try {
    return report(body());
  } catch (const StatusError& e) {
    return report(e.status);
  } catch (const InternalError& e) {
    return report(Status(Code::internal, e.what()));
  } catch (const std::bad_alloc&) {
    return report(environment("out of memory"));
  } catch (const std::exception& e) {
    return report(Status(Code::internal, e.what()));
  } catch (...) {
    return report(Status(Code::internal, "an unknown exception"));
  }
}

// Copies a caller's structure of the size it states over one of ours. Fields that the caller lacks are zero;
// fields that we do not know must be zero.
template <class T>
Status read_struct(const T* given, const char* what, T* out) {
  *out = T{};
  out->struct_size = sizeof(T);
  if (!given) return {};
  const size_t size = given->struct_size;
  if (size < sizeof(size_t) || size > 4096)
    return invalid(std::string(what) + ": struct_size " + std::to_string(size) +
                   " is not a size of this structure");
  std::memcpy(out, given, size < sizeof(T) ? size : sizeof(T));
  out->struct_size = sizeof(T);
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(T); i < size; ++i)
    if (bytes[i]) return unsupported(std::string(what) + ": a field this version does not know is set");
  return {};
}

// Copies our structure into a caller's of the size it states. Fields that we do not know become zero.
template <class T>
Status write_struct(const T& full, const char* what, T* out) {
  const size_t size = out->struct_size;
  if (size < sizeof(size_t) || size > 4096)
    return invalid(std::string(what) + ": struct_size " + std::to_string(size) +
                   " is not a size of this structure");
  std::memset(static_cast<void*>(out), 0, size);
  std::memcpy(static_cast<void*>(out), &full, size < sizeof(full) ? size : sizeof(full));
  out->struct_size = size;
  return {};
}

// Writes a text as tenon_graph_print does: at most `capacity` bytes with the zero, nothing if capacity is 0.
Status write_text(const std::string& text, const char* function, char* buffer, size_t capacity,
                  size_t* length);

// The reference count of a handle.
struct Counted {
  std::atomic<int> references{1};
};
template <class T>
void retain(T* handle) {
  if (handle) handle->references.fetch_add(1, std::memory_order_relaxed);
}
template <class T>
void release(T* handle) {
  if (handle && handle->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete handle;
}

// Checks that programs and queries can be made from the graph.
Status check_finished(const tenon_graph* graph, const char* function);
Status read_tensor(const tenon_tensor* given, const char* what, size_t position, Tensor* out);

}  // namespace tenon::api

struct tenon_context : tenon::api::Counted {
  std::unique_ptr<tenon::Parallel> parallel;  // null: OpenMP
  tenon::Allocator allocator;
  int num_threads = 0;
  bool logs = false;
  tenon_device_alloc_fn device_alloc = nullptr;
  tenon_device_free_fn device_free = nullptr;
  void* device_allocator_user = nullptr;
  // The host's memory of a device; null if the host brings none. Lives as long as the context.
  tenon::DeviceMemory* device_memory(tenon::DeviceId device);
  ~tenon_context();

 private:
  std::mutex mutex_;  // guards device_memories_
  std::vector<std::pair<tenon::DeviceId, std::unique_ptr<tenon::DeviceMemory>>> device_memories_;
};
struct tenon_graph : tenon::api::Counted {
  tenon::Graph graph;
  bool finished = true;
  // Under construction:
  std::unique_ptr<tenon::Builder> builder;
  std::vector<tenon::Status> errors;
};
struct tenon_program : tenon::api::Counted {
  std::shared_ptr<tenon::Program> program;
  tenon_context* context = nullptr;  // one reference
  ~tenon_program() {
    program.reset();
    tenon::api::release(context);
  }
};
