// See build_id.h.
#include "src/base/build_id.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "src/base/align.h"
#include "src/base/text.h"

namespace tenon {
namespace {

// Names and contents of notes are padded to words of 32 bits.
size_t padded(size_t bytes) { return static_cast<size_t>(ceil_div(static_cast<int64_t>(bytes), 4) * 4); }

// The build id among the notes of a segment.
std::string_view id_in(std::string_view notes) {
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof note) {
    std::memcpy(&note, notes.data(), sizeof note);
    const size_t at = sizeof note + padded(note.n_namesz), end = at + padded(note.n_descsz);
    if (at + note.n_descsz > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID &&
        notes.substr(sizeof note, note.n_namesz) == std::string_view("GNU", 4))
      return notes.substr(at, note.n_descsz);
    notes.remove_prefix(std::min(notes.size(), end));
  }
  return {};
}

int visit(dl_phdr_info* file, size_t, void* found) {
  const std::span<const ElfW(Phdr)> segments(file->dlpi_phdr, file->dlpi_phnum);
  const auto here = reinterpret_cast<uintptr_t>(&visit);
  const auto holds = [&](const ElfW(Phdr) & s) {
    return s.p_type == PT_LOAD && here - (file->dlpi_addr + s.p_vaddr) < s.p_memsz;
  };
  if (std::ranges::none_of(segments, holds)) return 0;
  for (const ElfW(Phdr) & s : segments) {
    if (s.p_type != PT_NOTE) continue;
    const std::string_view id =
        id_in({reinterpret_cast<const char*>(file->dlpi_addr + s.p_vaddr), static_cast<size_t>(s.p_memsz)});
    if (!id.empty()) *static_cast<std::string*>(found) = to_hex(id.data(), id.size()).substr(2);
  }
  return 1;
}

}  // namespace

std::string build_id() {
  static const std::string& id = *[] {
    auto* found = new std::string;
    dl_iterate_phdr(visit, found);
    return found;
  }();
  return id;
}

}  // namespace tenon
