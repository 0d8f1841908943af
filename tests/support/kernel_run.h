// Runs a kernel as machine code and in the interpreter, and compares bits. The buffers of the machine code end (or begin) at a
// protected page, so an access outside crashes; the bytes on the other side are canaries. For an ISA that this machine lacks,
// kernels are emitted with its number of lanes and compiled for the best ISA available, which tests everything but LLVM's
// instruction selection. Kernels that name an instruction of such an ISA are left out. Used by emit_test.cc and emit_random_test.cc.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "jit/llvm/compiler.h"
#include "jit/llvm/orc.h"
#include "jit/objects/elf_loader.h"
#include "tests/support/kernel_gen.h"

namespace tenon::jit {

inline constexpr Isa kAllIsas[] = {Isa::sse2, Isa::avx2, Isa::avx512};
inline constexpr char kCanary = 0x39;

// Memory with a protected page directly behind (at_end) or in front of it.
class Fenced {
 public:
  Fenced(size_t bytes, bool at_end, size_t align) {
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    room_ = (bytes + page) / page * page;
    map_ = static_cast<char*>(
        mmap(nullptr, room_ + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(map_, page, PROT_NONE);
    mprotect(map_ + page + room_, page, PROT_NONE);
    std::memset(map_ + page, kCanary, room_);
    begin_ = map_ + page;
    size_ = bytes;
    data = at_end ? begin_ + (room_ - bytes) / align * align : begin_;
    page_ = page;
  }
  Fenced(const Fenced&) = delete;
  ~Fenced() { munmap(map_, room_ + 2 * page_); }
  bool intact() const {
    for (char* p = begin_; p < begin_ + room_; ++p)
      if ((p < data || p >= data + size_) && *p != kCanary) return false;
    return true;
  }
  char* data;

 private:
  char *map_, *begin_;
  size_t room_, size_, page_;
};

struct Compiled {
  Linked linked;
  KernelFn function = nullptr;
  std::string text;
};

inline Result<Compiled> compile_for(const Kernel& kernel, Isa isa) {
  Compiled c;
  c.text = llvm_text(kernel, isa);
  std::string text = c.text;
  if (isa > host_isa()) {
    size_t at = text.find("\"target-cpu\""), end = text.find(" {", at);
    text.replace(at, end - at,
                 host_isa() == Isa::avx2 ? "\"target-cpu\"=\"x86-64-v3\"" : "\"target-cpu\"=\"x86-64\"");
  }
  TENON_ASSIGN(std::string object, compile_object(text));
  TENON_ASSIGN(c.linked, link(object));
  c.function = reinterpret_cast<KernelFn>(c.linked.functions.at(kernel.name).address);
  return c;
}

// Runs [0, par iterations), cut into ranges at `cuts` (ascending). Returns the buffers, and the fault word in *fault.
inline BufferBytes run_machine(const KernelCase& c, const Compiled& code, Isa isa, bool at_end,
                               const std::vector<double>& cuts, int32_t* fault) {
  std::vector<std::unique_ptr<Fenced>> fenced;
  std::vector<void*> pointers;
  for (size_t i = 0; i < c.data.size(); ++i) {
    size_t bytes = static_cast<size_t>(c.lengths[i]) * size_of(c.kernel.buffers[i].type);
    fenced.push_back(std::make_unique<Fenced>(bytes, at_end, 1));
    if (bytes > 0) std::memcpy(fenced.back()->data, c.data[i].data(), bytes);
    pointers.push_back(fenced.back()->data);
  }
  pointers.push_back(fault);
  Fenced scratch(scratch_bytes(c.kernel, c.sizes.data()), at_end, 64);
  const int64_t count = par_iterations(c.kernel, c.sizes.data(), lanes(isa));
  int64_t begin = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    int64_t end = i < cuts.size() ? std::max(begin, static_cast<int64_t>(cuts[i] * count)) : count;
    code.function(pointers.data(), c.sizes.data(), scratch.data, begin, end);
    begin = end;
  }
  BufferBytes out;
  for (size_t i = 0; i < c.data.size(); ++i) {
    EXPECT_TRUE(fenced[i]->intact()) << "written beside %" << c.kernel.buffers[i].name;
    out.emplace_back(fenced[i]->data, fenced[i]->data + c.data[i].size());
  }
  EXPECT_TRUE(scratch.intact()) << "written beside the scratch memory";
  return out;
}

// Returns "" if machine code and interpreter agree on every ISA and every split into ranges.
inline std::string disagreement(const KernelCase& c, const std::map<Isa, Compiled>& compiled) {
  for (const auto& [isa, code] : compiled) {
    BufferBytes want = c.data;
    int32_t want_fault = 0;
    Status status = interpret(c.kernel, views(c, want), c.sizes, lanes(isa), &want_fault);
    if (!status.ok()) return status.message();
    int round = 0;
    for (const std::vector<double>& cuts : std::vector<std::vector<double>>{{}, {0.3, 0.31, 0.8}, {0.5}}) {
      int32_t fault = 0;
      BufferBytes got = run_machine(c, code, isa, round++ % 2 == 0, cuts, &fault);
      std::string difference = first_difference(c, got, want);
      if (fault != want_fault)
        difference += "fault " + std::to_string(fault) + ", " + std::to_string(want_fault);
      if (!difference.empty())
        return std::string(isa_name(isa)) + " with " + std::to_string(cuts.size()) + " cuts: " + difference +
               " is wanted";
    }
  }
  return "";
}

inline Result<std::map<Isa, Compiled>> compile_for_all(const Kernel& kernel) {
  std::map<Isa, Compiled> all;
  for (Isa isa : kAllIsas) {
    if (isa > host_isa() && llvm_text(kernel, isa).find("@llvm.x86.") != std::string::npos) continue;
    TENON_ASSIGN(all[isa], compile_for(kernel, isa));
  }
  return all;
}

using Sizes = std::map<std::string, int64_t>;

// Makes the shortest buffers that the interpreter accepts for these sizes, filled with small numbers.
inline void fill_tightly(KernelCase& c, unsigned seed) {
  std::mt19937_64 random(seed);
  c.lengths.clear();
  c.data.clear();
  for (const Buffer& b : c.kernel.buffers) {
    if (b.role == Buffer::Role::local) continue;
    c.lengths.push_back(1 << 14);
    std::vector<char>& data = c.data.emplace_back(c.lengths.back() * size_of(b.type), 0x5b);
    if (b.role == Buffer::Role::out) continue;
    for (int64_t e = 0; e < c.lengths.back(); ++e) {
      double x = std::uniform_real_distribution<double>(-4, 4)(random);
      uint64_t bits = 0;
      if (is_bool(b.type))
        bits = random() % 2;
      else if (!is_float(b.type))
        bits = random() % 8;
      else if (b.type == DType::f64)
        bits = std::bit_cast<uint64_t>(x);
      else if (b.type == DType::f32)
        bits = std::bit_cast<uint32_t>(static_cast<float>(x));
      else
        bits = narrowed(b.type, static_cast<float>(x));
      std::memcpy(data.data() + e * size_of(b.type), &bits, size_of(b.type));
    }
  }
  for (size_t i = 0; i < c.lengths.size(); ++i) {
    int64_t low = 0, high = c.lengths[i];
    while (low < high) {
      c.lengths[i] = (low + high) / 2;
      BufferBytes data = c.data;
      int32_t fault = 0;
      if (interpret(c.kernel, views(c, data), c.sizes, 16, &fault).ok())
        high = c.lengths[i];
      else
        low = c.lengths[i] + 1;
    }
    c.lengths[i] = high;
    c.data[i].resize(high * size_of(c.kernel.buffers[i].type));
  }
}

// Checks `text` at each of the sizes, on every ISA.
inline void check(const std::string& text, const std::vector<Sizes>& all_sizes) {
  Result<Kernel> kernel = parse_kernel(text);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  ASSERT_EQ(verify(*kernel).message(), "");
  auto compiled = compile_for_all(*kernel);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  for (const Sizes& sizes : all_sizes) {
    KernelCase c;
    c.kernel = *kernel;
    std::string shown;
    for (const std::string& size : kernel->sizes) {
      c.sizes.push_back(sizes.at(size));
      shown += size + "=" + std::to_string(c.sizes.back()) + " ";
    }
    fill_tightly(c, static_cast<unsigned>(c.sizes[0]) + 1);
    ASSERT_EQ(disagreement(c, *compiled), "") << shown << text;
  }
}

// Sizes in which `size` takes values around every vector width, 0 and primes.
inline std::vector<Sizes> sizes_around(const std::string& size, Sizes others) {
  std::vector<Sizes> all;
  for (int64_t n : {0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 47, 64, 67, 131}) {
    Sizes s = others;
    s[size] = n;
    all.push_back(s);
  }
  return all;
}

}  // namespace tenon::jit
