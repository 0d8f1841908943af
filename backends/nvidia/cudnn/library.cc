// See library.h.
#include "backends/nvidia/cudnn/library.h"

#include "backends/nvidia/cudnn/handles.h"
namespace tenon::cudnn {
namespace {

constexpr size_t kOldestLibrary = 90000;

}  // namespace

Result<std::unique_ptr<Library>> Library::open(const LibrarySearch& search) {
  std::unique_ptr<Library> l(new Library);
  TENON_TRY(l->open_file(search, "cudnnGetVersion", kOldestLibrary));
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
  Library::forget();
}

}  // namespace tenon::cudnn
