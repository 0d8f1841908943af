// See elf_loader.h. Layout of a block: the allocated sections of the object, then one stub per undefined
// function. A stub jumps through a 64-bit address, because libraries may be farther away than a 32-bit
// displacement reaches.
#include "jit/objects/elf_loader.h"

#include <elf.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "jit/objects/code_pool.h"
#include "jit/objects/host_call.h"

// Conversions without an instruction in plain x86-64; from the compiler's runtime library.
extern "C" {
float __extendhfsf2(_Float16);
_Float16 __truncsfhf2(float);
}

namespace tenon::jit {
namespace {

template <class T>
T read(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Status damaged(const std::string& what) { return {tenon::Code::internal, "object code: " + what}; }

constexpr size_t kStub = 16;
constexpr unsigned char kJump[] = {0xff, 0x25, 0, 0, 0, 0};  // jmp *0(%rip); the address follows

class Linker {
 public:
  explicit Linker(std::string_view object) : object_(object) {}

  Result<Linked> run() {
    TENON_TRY(read_sections());
    TENON_TRY(read_symbols());
    size_t size = layout();
    Linked linked;
    auto memory = CodePool::get().install(size, [&](char* at) {
      base_ = at;
      return write();
    });
    if (!memory.ok()) return memory.status();
    linked.memory = *memory;
    linked.bytes = size;
    for (const Symbol& s : symbols_)
      if (s.function && s.section != SHN_UNDEF) linked.functions[std::string(s.name)] = {address(s), s.size};
    return linked;
  }

 private:
  struct Section {
    Elf64_Shdr header;
    std::string_view bytes;
    size_t offset = 0;  // in the block
    bool loaded = false;
  };
  struct Symbol {
    std::string_view name;
    uint16_t section;
    uint64_t value, size;
    bool function = false;  // global
    size_t stub = 0;
  };

  bool inside(uint64_t at, uint64_t size) const {
    return at <= object_.size() && size <= object_.size() - at;
  }

  Status read_sections() {
    if (object_.size() < sizeof(Elf64_Ehdr)) return damaged("too short");
    auto header = read<Elf64_Ehdr>(object_, 0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_machine != EM_X86_64 || header.e_type != ET_REL || header.e_shentsize != sizeof(Elf64_Shdr))
      return damaged("not a relocatable x86-64 ELF file");
    if (!inside(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr)))
      return damaged("section table out of the file");
    for (size_t i = 0; i < header.e_shnum; ++i) {
      Section s{read<Elf64_Shdr>(object_, header.e_shoff + i * sizeof(Elf64_Shdr)), {}};
      if (s.header.sh_type != SHT_NOBITS) {
        if (!inside(s.header.sh_offset, s.header.sh_size)) return damaged("section out of the file");
        s.bytes = object_.substr(s.header.sh_offset, s.header.sh_size);
      }
      s.loaded =
          (s.header.sh_flags & SHF_ALLOC) && s.header.sh_size > 0 && s.header.sh_type != SHT_X86_64_UNWIND;
      if (s.loaded && (s.header.sh_type != SHT_PROGBITS || (s.header.sh_flags & (SHF_WRITE | SHF_TLS))))
        return damaged("a section of writable data");
      sections_.push_back(s);
    }
    return {};
  }

  Status read_symbols() {
    for (const Section& table : sections_) {
      if (table.header.sh_type != SHT_SYMTAB) continue;
      if (table.header.sh_link >= sections_.size()) return damaged("symbol table without names");
      std::string_view names = sections_[table.header.sh_link].bytes;
      for (size_t at = 0; at + sizeof(Elf64_Sym) <= table.bytes.size(); at += sizeof(Elf64_Sym)) {
        auto raw = read<Elf64_Sym>(table.bytes, at);
        if (raw.st_name >= names.size() && raw.st_name != 0) return damaged("symbol name out of the table");
        size_t end = names.find('\0', raw.st_name);
        Symbol s{raw.st_name ? names.substr(raw.st_name, end - raw.st_name) : "", raw.st_shndx, raw.st_value,
                 raw.st_size};
        s.function = ELF64_ST_TYPE(raw.st_info) == STT_FUNC && ELF64_ST_BIND(raw.st_info) == STB_GLOBAL;
        bool placed = s.section < sections_.size() && sections_[s.section].loaded;
        if (placed && s.value > sections_[s.section].header.sh_size)
          return damaged("symbol out of its section");
        if (s.function && !placed) return damaged("function without code");
        symbols_.push_back(s);
      }
    }
    return {};
  }

  size_t layout() {
    size_t size = 0;
    for (Section& s : sections_) {
      if (!s.loaded) continue;
      size_t align = std::max<size_t>(s.header.sh_addralign, 1);
      size = s.offset = (size + align - 1) / align * align;
      size += s.bytes.size();
    }
    size = (size + kStub - 1) / kStub * kStub;
    for (size_t i = 1; i < symbols_.size(); ++i) {
      if (symbols_[i].section != SHN_UNDEF) continue;
      symbols_[i].stub = size;
      size += kStub;
    }
    return size;
  }

  char* address(const Symbol& s) const {
    if (s.section == SHN_UNDEF) return base_ + s.stub;
    return base_ + sections_[s.section].offset + s.value;
  }

  Status write() {
    for (const Section& s : sections_)
      if (s.loaded) std::memcpy(base_ + s.offset, s.bytes.data(), s.bytes.size());
    for (size_t i = 1; i < symbols_.size(); ++i) {
      const Symbol& s = symbols_[i];
      if (s.section != SHN_UNDEF) continue;
      void* target = runtime_symbol(s.name);
      if (!target) return damaged("calls the unknown function " + std::string(s.name));
      std::memcpy(base_ + s.stub, kJump, sizeof kJump);
      std::memcpy(base_ + s.stub + sizeof kJump, &target, sizeof target);
    }
    for (const Section& s : sections_)
      if (s.header.sh_type == SHT_RELA)
        TENON_TRY(relocate(s));
      else if (s.header.sh_type == SHT_REL)
        return damaged("relocations without addends");
    return {};
  }

  Status relocate(const Section& table) {
    if (table.header.sh_info >= sections_.size()) return damaged("relocations of no section");
    const Section& target = sections_[table.header.sh_info];
    if (!target.loaded) return {};
    for (size_t at = 0; at + sizeof(Elf64_Rela) <= table.bytes.size(); at += sizeof(Elf64_Rela)) {
      auto r = read<Elf64_Rela>(table.bytes, at);
      if (ELF64_R_SYM(r.r_info) >= symbols_.size()) return damaged("relocation without symbol");
      const Symbol& s = symbols_[ELF64_R_SYM(r.r_info)];
      if (s.section != SHN_UNDEF && !(s.section < sections_.size() && sections_[s.section].loaded))
        return damaged("relocation to a section that is not loaded");
      const bool wide = ELF64_R_TYPE(r.r_info) == R_X86_64_64;
      if (r.r_offset > target.bytes.size() || target.bytes.size() - r.r_offset < (wide ? 8 : 4))
        return damaged("relocation out of its section");
      char* where = base_ + target.offset + r.r_offset;
      // Unsigned: a damaged addend wraps around, and the range check below finds it.
      uint64_t value = reinterpret_cast<uint64_t>(address(s)) + static_cast<uint64_t>(r.r_addend);
      switch (ELF64_R_TYPE(r.r_info)) {
        case R_X86_64_64: std::memcpy(where, &value, 8); break;
        case R_X86_64_PC32:
        case R_X86_64_PLT32: {
          const auto offset = static_cast<int64_t>(value - reinterpret_cast<uint64_t>(where));
          const auto narrow = static_cast<int32_t>(offset);
          if (narrow != offset) return damaged("relocation out of range");
          std::memcpy(where, &narrow, 4);
          break;
        }
        default: return damaged("relocation type " + std::to_string(ELF64_R_TYPE(r.r_info)));
      }
    }
    return {};
  }

  std::string_view object_;
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
  char* base_ = nullptr;
};

}  // namespace

void* runtime_symbol(std::string_view name) {
  struct Entry {
    std::string_view name;
    void* address;
  };
#define F1(g)                                                              \
  {#g, reinterpret_cast<void*>(static_cast<double (*)(double)>(::g))}, {   \
    #g "f", reinterpret_cast<void*>(static_cast<float (*)(float)>(::g##f)) \
  }
  // Code calls these, except memcpy and fmod, only if the machine lacks an instruction (plain x86-64).
  static const Entry kEntries[] = {
      {"memcpy", reinterpret_cast<void*>(static_cast<void* (*)(void*, const void*, size_t)>(std::memcpy))},
      {"memset", reinterpret_cast<void*>(static_cast<void* (*)(void*, int, size_t)>(std::memset))},
      {"fma", reinterpret_cast<void*>(static_cast<double (*)(double, double, double)>(::fma))},
      {"fmaf", reinterpret_cast<void*>(static_cast<float (*)(float, float, float)>(::fmaf))},
      {"fmod", reinterpret_cast<void*>(static_cast<double (*)(double, double)>(::fmod))},
      {"fmodf", reinterpret_cast<void*>(static_cast<float (*)(float, float)>(::fmodf))},
      F1(floor),
      F1(ceil),
      F1(trunc),
      F1(rint),
      F1(nearbyint),
      F1(roundeven),
      {"__extendhfsf2", reinterpret_cast<void*>(__extendhfsf2)},
      {"__truncsfhf2", reinterpret_cast<void*>(__truncsfhf2)},
  };
#undef F1
  for (const Entry& e : kEntries)
    if (e.name == name) return e.address;
  return host_symbol(name);
}

Result<Linked> link(std::string_view object) { return Linker(object).run(); }

}  // namespace tenon::jit
