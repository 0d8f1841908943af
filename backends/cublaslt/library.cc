// See library.h.
#include "backends/cublaslt/library.h"

#include <map>
#include <mutex>
#include <optional>

#include "backends/cuda/code.h"
#include "backends/cuda/libraries.h"

namespace tenon::cublaslt {
namespace {

constexpr size_t kOldestLibrary = 120000;

struct OpenLibrary {
  std::mutex mutex;
  std::optional<Result<std::unique_ptr<Library>>> library;  // nothing: nobody asked
  std::map<int, std::unique_ptr<Handle>> handles;
};
OpenLibrary& open_library() {
  static OpenLibrary& all = *new OpenLibrary;  // steps may outlive static destruction
  return all;
}

}  // namespace

std::string version_text(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Result<const Library*> Library::get() {
  OpenLibrary& o = open_library();
  std::lock_guard lock(o.mutex);
  if (!o.library) o.library.emplace(open(cuda::cublaslt_search()));
  if (!o.library->ok()) return o.library->status();
  return (*o.library)->get();
}

const Library* Library::opened() {
  OpenLibrary& o = open_library();
  std::lock_guard lock(o.mutex);
  return o.library && o.library->ok() ? (*o.library)->get() : nullptr;
}

Result<std::unique_ptr<Library>> Library::open(const LibrarySearch& search) {
  std::unique_ptr<Library> l(new Library);
  TENON_ASSIGN(l->file_, SharedLibrary::open(search));
  // The version first: it says more about an old library than the first function it lacks.
  size_t (*version)() = nullptr;
  TENON_TRY(l->file_.resolve("cublasLtGetVersion", version));
  l->version_ = version();
  if (l->version_ < kOldestLibrary)
    return environment("cuBLASLt " + l->path() + " is of version " + version_text(l->version_) + "; " +
                       version_text(kOldestLibrary) + " or newer is needed");
  TENON_TRY(l->file_.resolve("cublasLtGetStatusName", l->status_name_));
  TENON_TRY(l->file_.resolve("cublasLtGetStatusString", l->status_text_));
#define X(name, ...) TENON_TRY(l->name.resolve(l->file_, #name, l.get()));
  TENON_CUBLASLT_FUNCTIONS(X)
#undef X
  return l;
}

Status Library::failure(const char* call, int status) const {
  const char *name = status_name_(status), *text = status_text_(status);
  std::string message = call + std::string(": ") + (name && *name ? name : "status");
  message += " (" + std::to_string(status) + ")";
  if (text && *text) message += std::string(": ") + text;
  return environment(std::move(message));
}

Result<std::unique_ptr<Handle>> Handle::open(const Library& library, const cuda::Device& device) {
  std::unique_ptr<Handle> h(new Handle(library, device));
  const cuda::Current current(device);
  TENON_TRY(current.status());
  TENON_TRY(library.cublasLtCreate(&h->raw_));
  return h;
}

Handle::~Handle() {
  if (!raw_) return;
  const cuda::Current current(device_);
  library_.cublasLtDestroy.status_of(raw_);
}

Result<const Handle*> handle_of(int ordinal) {
  TENON_ASSIGN(const Library* library, Library::get());
  TENON_ASSIGN(const cuda::Device* device, cuda::device(ordinal));
  OpenLibrary& o = open_library();
  std::lock_guard lock(o.mutex);
  std::unique_ptr<Handle>& place = o.handles[ordinal];
  if (!place) {
    TENON_ASSIGN(place, Handle::open(*library, *device));
  }
  return place.get();
}

void forget_library() {
  OpenLibrary& o = open_library();
  std::lock_guard lock(o.mutex);
  o.handles.clear();
  o.library.reset();
}

}  // namespace tenon::cublaslt
