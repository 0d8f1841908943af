// See exit_gate.h.
#include "backends/onednn/exit_gate.h"

#include <dnnl.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "src/base/no_fork.h"

namespace tenon::onednn {
namespace {

// An exit handler cannot be removed, so their number is bounded. A process makes few kinds of primitives.
constexpr int kMostHandlers = 512;
constexpr int kPatienceMs = 2000;

std::atomic<int64_t> inside{0};
std::atomic<bool> closed{false};
std::atomic<int> handlers{0};
thread_local int depth = 0;
thread_local bool exiting = false;

void close_gate() {
  exiting = true;  // on this thread, destructors of the host may still run programs
  closed.store(true);
  const int64_t own = depth > 0 ? 1 : 0;
  for (int ms = 0; ms < kPatienceMs && inside.load() > own; ++ms) usleep(1000);
}

// Replaces __cxa_atexit.
int never_destroy(void (*)(void*), void*, void*) { return 0; }

// Writes the address of never_destroy into the relocation slots of __cxa_atexit of the shared object that contains the address
// `inner`, unless Tenon is part of the same object. A callback of dl_iterate_phdr.
int change_slots(dl_phdr_info* object, size_t, void* inner) {
  const ElfW(Dyn)* dynamic = nullptr;
  const ElfW(Phdr)* sealed = nullptr;  // the part that the loader has made read-only
  bool found = false, ours = false;
  auto within = [&](const ElfW(Phdr) & part, const void* p) {
    return reinterpret_cast<uintptr_t>(p) - (object->dlpi_addr + part.p_vaddr) < part.p_memsz;
  };
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(object->dlpi_addr + part.p_vaddr);
    if (part.p_type == PT_GNU_RELRO) sealed = &part;
    if (part.p_type != PT_LOAD) continue;
    found = found || within(part, inner);
    ours = ours || within(part, reinterpret_cast<const void*>(&never_destroy));
  }
  if (!found) return 0;
  if (ours || !dynamic) return 1;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * tables[2] = {};
  size_t bytes[2] = {};
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    auto at = dynamic->d_un.d_ptr;
    if (at < object->dlpi_addr) at += object->dlpi_addr;
    switch (dynamic->d_tag) {
      case DT_SYMTAB: symbols = reinterpret_cast<const ElfW(Sym)*>(at); break;
      case DT_STRTAB: names = reinterpret_cast<const char*>(at); break;
      case DT_JMPREL: tables[0] = reinterpret_cast<const ElfW(Rela)*>(at); break;
      case DT_PLTRELSZ: bytes[0] = dynamic->d_un.d_val; break;
      case DT_RELA: tables[1] = reinterpret_cast<const ElfW(Rela)*>(at); break;
      case DT_RELASZ: bytes[1] = dynamic->d_un.d_val; break;
      default: break;
    }
  }
  if (!symbols || !names) return 1;
  for (int t = 0; t < 2; ++t)
    for (size_t i = 0; tables[t] && i < bytes[t] / sizeof(ElfW(Rela)); ++i) {
      const ElfW(Rela)& r = tables[t][i];
      const auto type = ELF64_R_TYPE(r.r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      if (std::strcmp(names + symbols[ELF64_R_SYM(r.r_info)].st_name, "__cxa_atexit") != 0) continue;
      const auto slot = object->dlpi_addr + r.r_offset;
      const auto size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
      void* page = reinterpret_cast<void*>(slot & ~(size - 1));
      if (mprotect(page, size, PROT_READ | PROT_WRITE) != 0) continue;
      auto* function = &never_destroy;
      std::memcpy(reinterpret_cast<void*>(slot), &function, sizeof function);
      if (sealed && within(*sealed, reinterpret_cast<void*>(slot))) mprotect(page, size, PROT_READ);
    }
  return 1;
}

}  // namespace

InLibrary::InLibrary() {
  if (depth++ > 0) return;
  static std::once_flag once;
  std::call_once(once, [] {
    dl_iterate_phdr(change_slots, reinterpret_cast<void*>(&dnnl_version));
    std::atexit(close_gate);  // runs before the destructors that were registered when the library was loaded
  });
  inside.fetch_add(1);
  if (!closed.load() || exiting) return;
  inside.fetch_sub(1);
  late_ = true;
}

InLibrary::~InLibrary() {
  if (--depth == 0 && !late_) inside.fetch_sub(1);
}

Status InLibrary::status() const {
  return late_ ? environment("the process is ending: oneDNN runs no more") : Status();
}

void used_anew() {
  static std::once_flag once;
  std::call_once(once, [] {
    // The child of a fork has only the calling thread.
    pthread_atfork(nullptr, nullptr, [] { inside.store(depth > 0 ? 1 : 0); });
  });
  if (handlers.fetch_add(1) >= kMostHandlers) return;
  const NoFork no_fork;  // atexit() holds a lock of the C library, which the child of a fork would wait for
  std::atexit(close_gate);
}

}  // namespace tenon::onednn
