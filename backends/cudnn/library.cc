// See library.h.
#include "backends/cudnn/library.h"

#include <mutex>
#include <optional>

#include "backends/cuda/libraries.h"
#include "backends/cudnn/handles.h"

namespace tenon::cudnn {
namespace {

constexpr size_t kOldestLibrary = 90000;

struct OpenLibrary {
  std::mutex mutex;
  std::optional<Result<std::unique_ptr<Library>>> library;  // nothing: nobody asked
};
OpenLibrary& open_library() {
  static OpenLibrary& all = *new OpenLibrary;  // steps may outlive static destruction
  return all;
}

}  // namespace

std::string version_text(size_t version) {
  if (version < 10000)  // as before 9: 8907
    return std::to_string(version / 1000) + "." + std::to_string(version / 100 % 10) + "." +
           std::to_string(version % 100);
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Result<const Library*> Library::get() {
  OpenLibrary& o = open_library();
  std::lock_guard lock(o.mutex);
  if (!o.library) o.library.emplace(open(cuda::cudnn_search()));
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
  TENON_TRY(l->file_.resolve("cudnnGetVersion", version));
  l->version_ = version();
  if (l->version_ < kOldestLibrary)
    return environment("cuDNN " + l->path() + " is of version " + version_text(l->version_) + "; " +
                       version_text(kOldestLibrary) + " or newer is needed");
  TENON_TRY(l->file_.resolve("cudnnGetErrorString", l->status_text_));
  TENON_TRY(l->file_.resolve("cudnnGetLastErrorString", l->last_text_));
#define X(name, ...) TENON_TRY(l->file_.resolve(#name, l->name));
  TENON_CUDNN_FUNCTIONS(X)
#undef X
  return l;
}

Status Library::failure(const std::string& call, int status) const {
  const char* name = status_text_(status);
  std::string message = call + ": " + (name && *name ? name : "status") + " (" + std::to_string(status) + ")";
  char last[512] = {};
  last_text_(last, sizeof last - 1);
  if (*last) message += std::string(": ") + last;
  return environment(std::move(message));
}

Result<Descriptor> Descriptor::make(const Library& library, int type, const char* what) {
  Descriptor d(library, what);
  TENON_TRY(d.check("cudnnBackendCreateDescriptor", library.cudnnBackendCreateDescriptor(type, &d.raw_)));
  return d;
}

Result<int64_t> Descriptor::get(int attribute, int type, int64_t most, void* values) const {
  int64_t count = 0;
  TENON_TRY(check("cudnnBackendGetAttribute",
                  library_->cudnnBackendGetAttribute(raw_, attribute, type, most, &count, values)));
  return count;
}

void forget_library() {
  forget_handles();
  OpenLibrary& o = open_library();
  std::lock_guard lock(o.mutex);
  o.library.reset();
}

}  // namespace tenon::cudnn
