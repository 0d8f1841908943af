// See library.h.
#include "backends/nvidia/cublaslt/library.h"

namespace tenon::cublaslt {
namespace {

constexpr size_t kOldestLibrary = 120000;

cuda::OfDevices<const Handle>& handles() { return immortal<cuda::OfDevices<const Handle>>(); }

}  // namespace

Result<std::unique_ptr<Library>> Library::open(const LibrarySearch& search) {
  std::unique_ptr<Library> l(new Library);
  TENON_TRY(l->open_file(search, "cublasLtGetVersion", kOldestLibrary));
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
  return {is_not_supported(status) ? Code::unsupported : Code::environment, std::move(message)};
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
  return handles().at(ordinal, [&](const cuda::Device& device) { return Handle::open(*library, device); });
}

void forget_library() {
  handles().forget();
  Library::forget();
}

}  // namespace tenon::cublaslt
