// See code_names.h. gdb's JIT interface is a list of object files in memory and a function in which gdb has a breakpoint
// (https://sourceware.org/gdb/current/onlinedocs/gdb.html/JIT-Interface.html). An object file of ours has a symbol, and a section .text without
// bytes at the address of the code.
#include "jit/objects/code_names.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include "src/base/env.h"
#include "src/base/log.h"
#include "src/base/no_fork.h"

// The names and fields that gdb looks for.
extern "C" {
struct jit_code_entry {
  jit_code_entry *next, *previous;
  const char* file;
  uint64_t bytes;
};
struct jit_descriptor {
  uint32_t version, action;
  jit_code_entry *relevant, *first;
};
[[gnu::used]] jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
[[gnu::noinline, gnu::used]] void __jit_debug_register_code() { asm volatile("" ::: "memory"); }
}

namespace tenon::jit {
namespace {

using namespace std::string_view_literals;

void tell_perf(const std::string& kernel, const Linked::Symbol& symbol) {
  // Any user may have created a file of this name. Another JIT of this process may write to it too.
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  bool warn = false;
  {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    const int file =
        open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct stat s{};
    if (file >= 0 && fstat(file, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() && s.st_nlink == 1) {
      dprintf(file, "%llx %zx tenon %s\n",
              static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(symbol.address)), symbol.size,
              kernel.c_str());
    } else {
      static bool warned = false;
      warn = !std::exchange(warned, true);
    }
    if (file >= 0) close(file);
  }
  if (warn) log("warning", path + " is no file of this user: kernels are not written to it");
}

enum : uint16_t { kText = 1, kSymbols, kStrings, kSections };  // numbers of sections; 0 is none

// An object file with one symbol.
std::string object_file(const std::string& name, const Linked::Symbol& symbol) {
  constexpr auto kNames = "\0.text\0.symtab\0.strtab\0"sv;  // of sections; a name is an offset
  const std::string strings = std::string(kNames) + name + '\0';
  std::array<Elf64_Sym, 2> symbols{};
  symbols[1] = {static_cast<Elf64_Word>(kNames.size()),
                ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                STV_DEFAULT,
                kText,
                0,
                symbol.size};
  const size_t symbols_at = sizeof(Elf64_Ehdr) + kSections * sizeof(Elf64_Shdr),
               strings_at = symbols_at + sizeof symbols;
  std::array<Elf64_Shdr, kSections> sections{};
  sections[kText].sh_name = 1;
  sections[kText].sh_type = SHT_NOBITS;
  sections[kText].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
  sections[kText].sh_addr = reinterpret_cast<uintptr_t>(symbol.address);
  sections[kText].sh_size = symbol.size;
  sections[kText].sh_addralign = 16;
  sections[kSymbols].sh_name = 7;
  sections[kSymbols].sh_type = SHT_SYMTAB;
  sections[kSymbols].sh_offset = symbols_at;
  sections[kSymbols].sh_size = sizeof symbols;
  sections[kSymbols].sh_link = kStrings;
  sections[kSymbols].sh_info = 1;  // the first global symbol
  sections[kSymbols].sh_addralign = 8;
  sections[kSymbols].sh_entsize = sizeof(Elf64_Sym);
  sections[kStrings].sh_name = 15;
  sections[kStrings].sh_type = SHT_STRTAB;
  sections[kStrings].sh_offset = strings_at;
  sections[kStrings].sh_size = strings.size();
  sections[kStrings].sh_addralign = 1;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_shoff = sizeof header;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = kSections;
  header.e_shstrndx = kStrings;
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file.append(reinterpret_cast<const char*>(sections.data()), sizeof sections);
  file.append(reinterpret_cast<const char*>(symbols.data()), sizeof symbols);
  return file + strings;
}

// A symbol that gdb knows until the object dies, and the memory that it names.
class Registered {
 public:
  Registered(std::string file, std::shared_ptr<void> memory)
      : file_(std::move(file)), memory_(std::move(memory)) {
    const std::lock_guard lock(mutex());
    jit_descriptor& all = __jit_debug_descriptor;
    entry_ = {all.first, nullptr, file_.data(), file_.size()};
    if (all.first) all.first->previous = &entry_;
    all.first = &entry_;
    tell(1);
  }
  ~Registered() {
    const NoFork no_fork;
    const std::lock_guard lock(mutex());
    if (entry_.next) entry_.next->previous = entry_.previous;
    (entry_.previous ? entry_.previous->next : __jit_debug_descriptor.first) = entry_.next;
    tell(2);
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex& one = *new std::mutex;  // programs may die after static objects
    return one;
  }
  // action: 1 adds the entry, 2 removes it.
  void tell(uint32_t action) {
    __jit_debug_descriptor.relevant = &entry_;
    __jit_debug_descriptor.action = action;
    __jit_debug_register_code();
    __jit_debug_descriptor.action = 0;
  }

  const std::string file_;
  const std::shared_ptr<void> memory_;
  jit_code_entry entry_;
};

}  // namespace

std::shared_ptr<void> tell_name(const std::string& kernel, const Linked::Symbol& symbol,
                                std::shared_ptr<void> memory) {
  // Plain values, because kernels may be compiled after static objects have been destroyed.
  static const bool perf = env::jit_profile() == std::string_view("perf");
  static const bool gdb = env::jit_profile() == std::string_view("gdb");
  if (perf) tell_perf(kernel, symbol);
  if (!gdb) return memory;
  return std::make_shared<Registered>(object_file("tenon_" + kernel, symbol), std::move(memory));
}

}  // namespace tenon::jit
