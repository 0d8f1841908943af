// See object_slice.h. Keeps the section of the function and every section that its relocations reach; a
// section of constants shared with other functions stays whole. Renumbers sections and symbols.
#include "jit/objects/object_slice.h"

#include <elf.h>

#include <cstring>
#include <map>
#include <vector>

namespace tenon::jit {
namespace {

Status broken(const std::string& what) { return {tenon::Code::internal, "slicing an object: " + what}; }

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <class T>
bool records(std::string_view bytes, std::vector<T>& out) {
  if (bytes.size() % sizeof(T)) return false;
  out.resize(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return true;
}

class Slicer {
 public:
  explicit Slicer(std::string_view object) : object_(object) {}

  Result<std::string> run(std::string_view function) {
    TENON_TRY(read());
    size_t start = 0;
    for (size_t i = 1; i < symbols_.size(); ++i)
      if (ELF64_ST_TYPE(symbols_[i].st_info) == STT_FUNC && name(names_, symbols_[i].st_name) == function)
        start = i;
    if (start == 0) return broken("no function " + std::string(function));
    TENON_TRY(keep(symbols_[start].st_shndx));
    // Local symbols come before the others.
    use(start);
    for (bool local : {true, false})
      for (auto& [old, number] : symbol_numbers_)
        if ((ELF64_ST_BIND(symbols_[old].st_info) == STB_LOCAL) == local) {
          number = symbol_order_.size() + 1;
          symbol_order_.push_back(old);
          locals_ += local;
        }
    return write();
  }

 private:
  static std::string_view name(std::string_view names, size_t at) {
    if (at >= names.size()) return {};
    return names.substr(at, names.find('\0', at) - at);
  }
  std::string_view content(const Elf64_Shdr& s) const {
    if (s.sh_type == SHT_NOBITS || s.sh_offset > object_.size() || s.sh_size > object_.size() - s.sh_offset)
      return {};
    return object_.substr(s.sh_offset, s.sh_size);
  }

  Status read() {
    if (object_.size() < sizeof header_) return broken("too short");
    std::memcpy(&header_, object_.data(), sizeof header_);
    const size_t size = size_t{header_.e_shnum} * sizeof(Elf64_Shdr);
    if (header_.e_shoff > object_.size() || size > object_.size() - header_.e_shoff ||
        !records(object_.substr(header_.e_shoff, size), sections_) || header_.e_shstrndx >= sections_.size())
      return broken("no section table");
    section_names_ = content(sections_[header_.e_shstrndx]);
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type != SHT_SYMTAB) continue;
      if (!records(content(s), symbols_) || s.sh_link >= sections_.size()) return broken("symbols");
      names_ = content(sections_[s.sh_link]);
    }
    return {};
  }

  void use(size_t symbol) { symbol_numbers_.emplace(symbol, 0); }

  // Keeps the section and everything that its relocations need.
  Status keep(size_t section) {
    if (section == SHN_UNDEF || section >= sections_.size()) return broken("a symbol without section");
    if (!section_numbers_.emplace(section, section_order_.size() + 1).second) return {};
    section_order_.push_back(section);
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type != SHT_RELA || s.sh_info != section) continue;
      std::vector<Elf64_Rela> list;
      if (!records(content(s), list)) return broken("relocations");
      for (const Elf64_Rela& r : list) {
        const size_t symbol = ELF64_R_SYM(r.r_info);
        if (symbol >= symbols_.size()) return broken("a relocation without symbol");
        use(symbol);
        if (symbols_[symbol].st_shndx != SHN_UNDEF) TENON_TRY(keep(symbols_[symbol].st_shndx));
      }
      std::vector<Elf64_Rela>& mine = relocations_[section];
      mine.insert(mine.end(), list.begin(), list.end());
    }
    return {};
  }

  Result<std::string> write() {
    std::string strings(1, '\0');
    auto intern = [&](std::string_view text) {
      if (text.empty()) return Elf64_Word{0};
      const auto at = static_cast<Elf64_Word>(strings.size());
      strings.append(text).push_back('\0');
      return at;
    };
    std::string out(sizeof header_, '\0');
    std::vector<Elf64_Shdr> table(1, Elf64_Shdr{});
    auto add = [&](Elf64_Shdr s, std::string_view bytes) {
      const size_t align = std::max<size_t>(s.sh_addralign, 1);
      out.resize((out.size() + align - 1) / align * align);
      s.sh_offset = out.size();
      s.sh_size = bytes.size();
      out += bytes;
      table.push_back(s);
    };
    for (size_t old : section_order_) {
      Elf64_Shdr s = sections_[old];
      s.sh_name = intern(name(section_names_, s.sh_name));
      s.sh_link = s.sh_info = 0;
      s.sh_flags &= ~static_cast<Elf64_Xword>(SHF_GROUP | SHF_LINK_ORDER);
      add(s, content(sections_[old]));
    }
    const size_t symbol_table = section_order_.size() + relocations_.size() + 1;
    for (auto& [old, list] : relocations_) {
      std::string bytes;
      for (Elf64_Rela r : list) {
        r.r_info = ELF64_R_INFO(symbol_numbers_.at(ELF64_R_SYM(r.r_info)), ELF64_R_TYPE(r.r_info));
        bytes += bytes_of(r);
      }
      Elf64_Shdr s{};
      s.sh_name = intern(".rela");
      s.sh_type = SHT_RELA;
      s.sh_flags = SHF_INFO_LINK;
      s.sh_link = static_cast<Elf64_Word>(symbol_table);
      s.sh_info = static_cast<Elf64_Word>(section_numbers_.at(old));
      s.sh_addralign = 8;
      s.sh_entsize = sizeof(Elf64_Rela);
      add(s, bytes);
    }
    std::string symbols(sizeof(Elf64_Sym), '\0');
    for (size_t old : symbol_order_) {
      Elf64_Sym s = symbols_[old];
      s.st_name = intern(name(names_, s.st_name));
      if (s.st_shndx != SHN_UNDEF) s.st_shndx = static_cast<Elf64_Half>(section_numbers_.at(s.st_shndx));
      symbols += bytes_of(s);
    }
    Elf64_Shdr s{};
    s.sh_name = intern(".symtab");
    s.sh_type = SHT_SYMTAB;
    s.sh_link = static_cast<Elf64_Word>(symbol_table + 1);
    s.sh_info = static_cast<Elf64_Word>(locals_ + 1);
    s.sh_addralign = 8;
    s.sh_entsize = sizeof(Elf64_Sym);
    add(s, symbols);
    s = {};
    s.sh_name = intern(".strtab");
    s.sh_type = SHT_STRTAB;
    s.sh_addralign = 1;
    add(s, strings);

    out.resize((out.size() + 7) / 8 * 8);
    header_.e_shoff = out.size();
    header_.e_shnum = static_cast<Elf64_Half>(table.size());
    header_.e_shstrndx = static_cast<Elf64_Half>(table.size() - 1);
    for (const Elf64_Shdr& each : table) out += bytes_of(each);
    std::memcpy(out.data(), &header_, sizeof header_);
    return out;
  }

  std::string_view object_, section_names_, names_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
  std::vector<Elf64_Sym> symbols_;
  std::map<size_t, size_t> section_numbers_, symbol_numbers_;  // old to new
  std::vector<size_t> section_order_, symbol_order_;           // new to old, from 1
  std::map<size_t, std::vector<Elf64_Rela>> relocations_;      // by old section
  size_t locals_ = 0;
};

}  // namespace

Result<std::string> slice(std::string_view object, std::string_view function) {
  return Slicer(object).run(function);
}

}  // namespace tenon::jit
