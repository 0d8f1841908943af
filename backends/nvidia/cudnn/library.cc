// See library.h.
#include "backends/nvidia/cudnn/library.h"

#include "backends/nvidia/cudnn/handles.h"
#include "backends/nvidia/device/libraries.h"

namespace tenon::cudnn {
namespace {

constexpr size_t kOldestLibrary = 90000;

cuda::OpenOnce<Library>& the_library() {
  static auto& library = *new cuda::OpenOnce<Library>;  // steps may outlive static destruction
  return library;
}

}  // namespace

Result<const Library*> Library::get() { return the_library().get(cuda::cudnn_search); }
const Library* Library::opened() { return the_library().opened(); }

Result<std::unique_ptr<Library>> Library::open(const LibrarySearch& search) {
  std::unique_ptr<Library> l(new Library);
  TENON_ASSIGN(l->file_, SharedLibrary::open(search));
  // Checks the version first: for an old library it makes a better message than a missing function.
  TENON_ASSIGN(l->version_, cuda::version_of(l->file_, search.what, "cudnnGetVersion", kOldestLibrary));
  TENON_TRY(l->file_.resolve("cudnnGetErrorString", l->status_text_));
  TENON_TRY(l->file_.resolve("cudnnGetLastErrorString", l->last_text_));
#define X(name, ...) TENON_TRY(l->name.resolve(l->file_, #name, l.get()));
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
  return {is_not_supported(status) ? Code::unsupported : Code::environment, std::move(message)};
}

Result<Descriptor> Descriptor::make(const Library& library, int type, const char* what) {
  Descriptor d(library, what);
  TENON_TRY(
      d.check("cudnnBackendCreateDescriptor", library.cudnnBackendCreateDescriptor.status_of(type, &d.raw_)));
  return d;
}

Result<int64_t> Descriptor::get(int attribute, int type, int64_t most, void* values) const {
  int64_t count = 0;
  TENON_TRY(check("cudnnBackendGetAttribute",
                  library_->cudnnBackendGetAttribute.status_of(raw_, attribute, type, most, &count, values)));
  return count;
}

void forget_library() {
  forget_handles();
  the_library().forget();
}

}  // namespace tenon::cudnn
