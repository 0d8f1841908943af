// A CUDA driver without a GPU, for tests. libcuda_mock.so has the functions of backends/nvidia/device/driver_api.h. It logs every
// call, checks what a driver checks (handles, contexts, sizes of launches, ranges of copies, captures), and fails on request
// (cuda_mock.h has the controls). Device memory is host memory, aligned to 256 bytes, filled with NaN, between canaries.
// The "machine code" that cuLibraryLoadData takes is one of
//   TENONLIST:fill=p8,add=ppp4   kernels by name, with the kinds of their arguments (p: a pointer; 4, 8: an integer of as many
//                                bytes) if they are to be logged or kept by graphs; launches are only logged
//   TENONSO:PATH                 a shared object: a launch of NAME runs its function mock_NAME, of type Entry, if there is one;
//                                its string mock_signature_NAME holds the kinds of arguments, mock_shared_NAME() returns its bytes
//                                of static shared memory
//   an ELF file                  a cubin: kernels are its sections .text.NAME; launches are only logged
// Launches run at once; a captured launch does not run.
// This file has devices, contexts, streams, memory and events.
#include "tests/mocks/cuda/cuda_mock_state.h"

namespace {

constexpr const char* kErrors[][2] = {
    {"CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {"CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {"CUDA_ERROR_UNKNOWN", "unknown error"}};
constexpr int kErrorNumbers[] = {1, 2, 3, 100, 101, 200, 201, 400, 500, 700, 719, 900, 901, 906, 999};

const int* number_of(int error) {
  return std::find(std::begin(kErrorNumbers), std::end(kErrorNumbers), error);
}

}  // namespace

TN_DRIVER cuInit(unsigned) {
  return call("cuInit", Needs::nothing, [](std::string&) {
    if (state().settings["devices"] == 0) return kCuNoDevice;
    state().initialized = true;
    return 0;
  });
}

TN_DRIVER cuDriverGetVersion(int* version) {
  return call("cuDriverGetVersion", Needs::nothing,
              [&](std::string&) { return *version = state().settings["version"], 0; });
}

TN_DRIVER cuGetErrorName(int error, const char** text) {
  return call("cuGetErrorName", Needs::nothing, [&](std::string&) {
    const int* at = number_of(error);
    if (at == std::end(kErrorNumbers)) return *text = nullptr, kInvalidValue;
    return *text = kErrors[at - kErrorNumbers][0], 0;
  });
}

TN_DRIVER cuGetErrorString(int error, const char** text) {
  return call("cuGetErrorString", Needs::nothing, [&](std::string&) {
    const int* at = number_of(error);
    if (at == std::end(kErrorNumbers)) return *text = nullptr, kInvalidValue;
    return *text = kErrors[at - kErrorNumbers][1], 0;
  });
}

TN_DRIVER cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", Needs::init,
              [&](std::string&) { return *count = state().settings["devices"], 0; });
}

TN_DRIVER cuDeviceGet(CuDevice* device, int ordinal) {
  return call("cuDeviceGet", Needs::init, [&](std::string& text) {
    text = cat(ordinal);
    if (ordinal < 0 || ordinal >= state().settings["devices"]) return 101;
    return *device = ordinal, 0;
  });
}

TN_DRIVER cuDeviceGetName(char* name, int size, CuDevice device) {
  return call("cuDeviceGetName", Needs::init, [&](std::string& text) {
    text = cat(device);
    std::strncpy(name, cat("Mock ", device).c_str(), static_cast<size_t>(size));
    return 0;
  });
}

TN_DRIVER cuDeviceGetAttribute(int* value, int attribute, CuDevice device) {
  return call("cuDeviceGetAttribute", Needs::init, [&](std::string& text) {
    text = cat(attribute, " of ", device);
    const Settings& s = state().settings;
    switch (attribute) {
      case kCuMultiprocessors: return *value = s["multiprocessors"], 0;
      case kCuMemoryClock: return *value = s["clock"], 0;
      case kCuMemoryBusWidth: return *value = s["width"], 0;
      case kCuThreadsPerMultiprocessor: return *value = s["threads"], 0;
      case kCuCapabilityMajor: return *value = s["architecture"] / 10, 0;
      case kCuCapabilityMinor: return *value = s["architecture"] % 10, 0;
      case kCuRegistersPerMultiprocessor: return *value = s["registers"], 0;
      case kCuSharedBytesOptin: return *value = s["shared"], 0;
      default: return kInvalidValue;
    }
  });
}

TN_DRIVER cuDevicePrimaryCtxRetain(CuContext* context, CuDevice device) {
  return call("cuDevicePrimaryCtxRetain", Needs::init, [&](std::string& text) {
    Context& c = state().contexts[device];
    c.name = text = cat("C", device);
    c.device = device;
    ++c.retained;
    *context = reinterpret_cast<CuContext>(&c);
    return 0;
  });
}

TN_DRIVER cuDevicePrimaryCtxRelease_v2(CuDevice device) {
  return call("cuDevicePrimaryCtxRelease_v2", Needs::init, [&](std::string& text) {
    Context& c = state().contexts[device];
    text = cat("C", device);
    if (c.retained == 0) return kInvalidContext;
    --c.retained;
    return 0;
  });
}

TN_DRIVER cuCtxGetCurrent(CuContext* context) {
  return call("cuCtxGetCurrent", Needs::init, [&](std::string&) {
    *context = stack.empty() ? nullptr : reinterpret_cast<CuContext>(stack.back());
    return 0;
  });
}

TN_DRIVER cuCtxPushCurrent_v2(CuContext context) {
  return call("cuCtxPushCurrent_v2", Needs::init, [&](std::string& text) {
    for (auto& [device, c] : state().contexts)
      if (reinterpret_cast<CuContext>(&c) == context && c.retained > 0) {
        stack.push_back(&c);
        text = c.name;
        return 0;
      }
    return kInvalidContext;
  });
}

TN_DRIVER cuCtxPopCurrent_v2(CuContext* context) {
  return call("cuCtxPopCurrent_v2", Needs::init, [&](std::string& text) {
    if (stack.empty()) return kInvalidContext;
    text = stack.back()->name;
    if (context) *context = reinterpret_cast<CuContext>(stack.back());
    stack.pop_back();
    return 0;
  });
}

TN_DRIVER cuStreamIsCapturing(CuStream stream, int* status) {
  return call("cuStreamIsCapturing", Needs::init, [&](std::string& text) {
    text = of(stream).substr(1);
    if (legacy(stream) && strict_capture()) return kCaptureImplicit;
    const auto found = state().capturing.find(stream);
    return *status = found == state().capturing.end() ? 0 : found->second, 0;
  });
}

TN_DRIVER cuStreamGetCtx(CuStream stream, CuContext* context) {
  return call("cuStreamGetCtx", Needs::init, [&](std::string& text) {
    text = of(stream).substr(1);
    if (captures(stream)) return invalidate(stream);
    const auto found = state().stream_device.find(stream);
    if (found != state().stream_device.end()) {
      *context = reinterpret_cast<CuContext>(&state().contexts[found->second]);
      return 0;
    }
    if (stack.empty()) return kInvalidContext;
    return *context = reinterpret_cast<CuContext>(stack.back()), 0;
  });
}

TN_DRIVER cuStreamSynchronize(CuStream stream) {
  return call("cuStreamSynchronize", Needs::context, [&](std::string& text) {
    text = of(stream).substr(1);
    if (captures(stream)) return invalidate(stream);
    if (unsafe()) return kCaptureForbids;
    return finish_copies(stream), 0;
  });
}

TN_DRIVER cuStreamCreate(CuStream* stream, unsigned flags) {
  return call("cuStreamCreate", Needs::context, [&](std::string& text) {
    if (flags > kCuNonBlocking) return kInvalidValue;
    if (unsafe()) return kCaptureForbids;
    auto s = std::make_unique<Named>();
    s->name = text = state().number("S");
    return *stream = keep<CuStream>(state().streams, std::move(s)), 0;
  });
}

TN_DRIVER cuStreamDestroy_v2(CuStream stream) {
  return call("cuStreamDestroy_v2", Needs::context, [&](std::string& text) {
    const Named* s = find(state().streams, stream);
    if (!s) return kInvalidHandle;
    text = s->name;
    if (unsafe()) return kCaptureForbids;
    state().captured.erase(stream);
    state().copies.erase(stream);  // copies that nothing waited for
    state().streams.erase(stream);
    return 0;
  });
}

TN_DRIVER cuStreamBeginCapture_v2(CuStream stream, int mode) {
  return call("cuStreamBeginCapture_v2", Needs::context, [&](std::string& text) {
    const Named* s = find(state().streams, stream);
    if (!s) return kInvalidHandle;
    text = cat(s->name, " mode ", mode);
    if (captures(stream) || mode != kCuRelaxedCapture) return kInvalidValue;
    state().captured[stream] = std::make_unique<Graph>();
    state().captured[stream]->thread = std::this_thread::get_id();
    return 0;
  });
}

TN_DRIVER cuStreamEndCapture(CuStream stream, CuGraph* graph) {
  return call("cuStreamEndCapture", Needs::context, [&](std::string& text) {
    const auto found = state().captured.find(stream);
    *graph = nullptr;
    if (found == state().captured.end()) return kInvalidValue;
    std::unique_ptr<Graph> g = std::move(found->second);
    state().captured.erase(found);
    if (g->invalidated) return kCaptureInvalidated;
    g->name = state().number("G");
    text = cat(state().streams.at(stream)->name, " = ", g->name, " of ", g->nodes.size());
    return *graph = keep<CuGraph>(state().graphs, std::move(g)), 0;
  });
}

TN_DRIVER cuThreadExchangeStreamCaptureMode(int* mode) {
  return call("cuThreadExchangeStreamCaptureMode", Needs::init, [&](std::string& text) {
    if (*mode < 0 || *mode > kCuRelaxedCapture) return kInvalidValue;
    text = cat(capture_mode, " to ", *mode);
    return std::swap(*mode, capture_mode), 0;
  });
}

TN_DRIVER cuPointerGetAttribute(void* value, int attribute, CuAddress address) {
  return call("cuPointerGetAttribute", Needs::init, [&](std::string& text) {
    text = cat(attribute, " of ", place(address));
    const Memory* m = memory_at(address, false);
    if (!m || attribute != kCuPointerDeviceOrdinal) return kInvalidValue;
    return *static_cast<int*>(value) = m->device, 0;
  });
}

namespace {

int allocate(CuAddress* address, size_t bytes, std::string& text) {
  if (bytes == 0) return kInvalidValue;
  auto m = std::make_unique<Memory>();
  m->block =
      static_cast<char*>(std::aligned_alloc(kAlign, kAlign + (bytes + 2 * kAlign - 1) / kAlign * kAlign));
  if (!m->block) return kCuOutOfMemory;
  std::memset(m->block, kCanary, kAlign);
  m->data = m->block + kAlign;
  std::memset(m->data, 0xff, bytes);
  std::memset(m->data + bytes, kCanary, kAlign);
  m->bytes = bytes;
  m->device = stack.back()->device;
  m->name = state().number("M");
  text += " = " + m->name;
  *address = reinterpret_cast<CuAddress>(m->data);
  state().memory.push_back(std::move(m));
  return 0;
}

int release(CuAddress address) {
  auto& all = state().memory;
  for (auto m = all.begin(); m != all.end(); ++m)
    if ((*m)->block && reinterpret_cast<CuAddress>((*m)->data) == address) {
      check_canaries(**m, "when it was freed");
      std::free((*m)->block);
      all.erase(m);
      return 0;
    }
  return kInvalidValue;
}

// Like the driver, reads the host's bytes now; they reach the device when the stream executes the copy.
int copy_in(CuAddress to, const void* from, size_t bytes, CuStream stream) {
  if (!within(to, bytes)) return kInvalidValue;
  const char* read = static_cast<const char*>(from);
  state().copies[stream].push_back([to, staged = std::string(read, bytes)] {
    if (within(to, staged.size())) std::memcpy(reinterpret_cast<void*>(to), staged.data(), staged.size());
  });
  return 0;
}

}  // namespace

TN_DRIVER cuMemAlloc_v2(CuAddress* address, size_t bytes) {
  return call("cuMemAlloc_v2", Needs::context, [&](std::string& text) {
    text = cat(bytes);
    if (unsafe()) return kCaptureForbids;
    return allocate(address, bytes, text);
  });
}

TN_DRIVER cuMemFree_v2(CuAddress address) {
  return call("cuMemFree_v2", Needs::context, [&](std::string& text) {
    text = place(address);
    if (unsafe()) return kCaptureForbids;
    return release(address);
  });
}

TN_DRIVER cuMemPoolCreate(CuPool* pool, const CuPoolProperties* p) {
  return call("cuMemPoolCreate", Needs::init, [&](std::string& text) {
    text = cat("of ", p->location);
    const bool good = p->allocation_type == kCuPinned && p->location_type == kCuDeviceLocation &&
                      p->location >= 0 && p->location < state().settings["devices"] && !p->handle_types &&
                      !p->security_attributes && !p->most_bytes && !p->usage;
    if (!good) return kInvalidValue;
    if (unsafe()) return kCaptureForbids;
    auto* made = new char;
    state().pools.insert(made);
    return *pool = reinterpret_cast<CuPool>(made), 0;
  });
}

TN_DRIVER cuMemPoolSetAttribute(CuPool pool, int attribute, void* value) {
  return call("cuMemPoolSetAttribute", Needs::init, [&](std::string& text) {
    if (!state().pools.count(pool) || attribute != kCuReleaseThreshold) return kInvalidValue;
    return text = cat("keeps ", *static_cast<uint64_t*>(value)), 0;
  });
}

TN_DRIVER cuMemPoolTrimTo(CuPool pool, size_t bytes) {
  return call("cuMemPoolTrimTo", Needs::init, [&](std::string& text) {
    text = cat(bytes);
    if (unsafe()) return kCaptureForbids;
    return state().pools.count(pool) ? 0 : kInvalidValue;
  });
}

TN_DRIVER cuMemPoolDestroy(CuPool pool) {
  return call("cuMemPoolDestroy", Needs::init, [&](std::string&) {
    if (!state().pools.erase(pool)) return kInvalidValue;
    return delete reinterpret_cast<char*>(pool), 0;
  });
}

TN_DRIVER cuMemAllocFromPoolAsync(CuAddress* address, size_t bytes, CuPool pool, CuStream stream) {
  return call("cuMemAllocFromPoolAsync", Needs::context, [&](std::string& text) {
    text = cat(bytes, of(stream));
    if (!state().pools.count(pool)) return kInvalidValue;
    return captures(stream) ? kCaptureForbids : allocate(address, bytes, text);
  });
}

TN_DRIVER cuMemFreeAsync(CuAddress address, CuStream stream) {
  return call("cuMemFreeAsync", Needs::context, [&](std::string& text) {
    text = place(address) + of(stream);
    return release(address);
  });
}

TN_DRIVER cuMemcpyHtoDAsync_v2(CuAddress to, const void* from, size_t bytes, CuStream stream) {
  return call("cuMemcpyHtoDAsync_v2", Needs::context, [&](std::string& text) {
    text = cat(place(to), " ", bytes, of(stream));
    return copy_in(to, from, bytes, stream);
  });
}

TN_DRIVER cuMemcpyDtoHAsync_v2(void* to, CuAddress from, size_t bytes, CuStream stream) {
  return call("cuMemcpyDtoHAsync_v2", Needs::context, [&](std::string& text) {
    text = cat(place(from), " ", bytes, of(stream));
    if (!within(from, bytes)) return kInvalidValue;
    if (!captures(stream)) finish_copies(stream);
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return 0;
  });
}

TN_DRIVER cuMemsetD8Async(CuAddress to, unsigned char value, size_t bytes, CuStream stream) {
  return call("cuMemsetD8Async", Needs::context, [&](std::string& text) {
    text = cat(place(to), " ", bytes, " x ", int{value}, of(stream));
    if (!within(to, bytes)) return kInvalidValue;
    return queue(stream, {{}, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); }, text});
  });
}

TN_DRIVER cuEventCreate(CuEvent* event, unsigned) {
  return call("cuEventCreate", Needs::context, [&](std::string& text) {
    auto e = std::make_unique<Event>();
    e->name = text = state().number("E");
    return *event = keep<CuEvent>(state().events, std::move(e)), 0;
  });
}

TN_DRIVER cuEventRecord(CuEvent event, CuStream stream) {
  return call("cuEventRecord", Needs::context, [&](std::string& text) {
    Event* e = find(state().events, event);
    if (!e) return kInvalidHandle;
    text = e->name + of(stream);
    e->recorded = true;
    e->time = std::chrono::steady_clock::now();
    return 0;
  });
}

TN_DRIVER cuEventElapsedTime(float* milliseconds, CuEvent begin, CuEvent end) {
  return call("cuEventElapsedTime", Needs::init, [&](std::string& text) {
    const Event *b = find(state().events, begin), *e = find(state().events, end);
    if (!b || !e || !b->recorded || !e->recorded) return kInvalidHandle;
    text = b->name + " " + e->name;
    return *milliseconds = std::chrono::duration<float, std::milli>(e->time - b->time).count(), 0;
  });
}

TN_DRIVER cuEventDestroy_v2(CuEvent event) {
  return call("cuEventDestroy_v2", Needs::init, [&](std::string& text) {
    const Event* e = find(state().events, event);
    if (!e) return kInvalidHandle;
    text = e->name;
    state().events.erase(event);
    return 0;
  });
}
