// orc: Compiler, which turns kernels into code in memory. The only file that includes LLVM. The canonical
// text of a kernel and the ISA are the identity of its code: equal kernels compile once; the first request
// compiles and the others wait. Several kernels share a module, because LLVM's fixed cost per module is a
// third of the compile time of a small kernel. Code that an earlier process left on disk is loaded from there
// (disk_cache.h). LLVM is initialised on first use. A fatal error of LLVM becomes an exception and leaks
// the module, so that the host survives. Tested by tests/unit/jit/llvm/emit_test.cc.
#include "jit/llvm/orc.h"

#include <llvm/AsmParser/Parser.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include "jit/kernel/kernel.h"
#include "jit/llvm/compiler.h"
#include "jit/objects/code_names.h"
#include "jit/objects/code_pool.h"
#include "jit/objects/elf_loader.h"
#include "jit/objects/object_slice.h"
#include "jit/pipeline.h"
#include "src/base/env.h"
#include "src/base/log.h"
#include "src/base/no_fork.h"
#include "src/base/store/disk_cache.h"
#include "src/base/threads/parallel_invoke.h"

namespace tenon::jit {
namespace {

constexpr size_t kThreads = 4;  // of one compile() call
constexpr size_t kBatch = 8;    // kernels per module; more gain nothing (bench/compile.cc)
constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

// Part of every key on disk. TENON_CODE_GENERATOR is a hash of this file, of object_slice.cc and of LLVM's
// libraries.
constexpr const char* kProducer = "LLVM " LLVM_VERSION_STRING " " TENON_CODE_GENERATOR;

Status failed(const std::string& what) { return {tenon::Code::internal, "LLVM: " + what}; }

struct LlvmFatal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const llvm::Target* target() {
  static const llvm::Target* target = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    // We want the order of the emitter, with vectors side by side; LLVM's scheduler would undo it to save
    // registers. The emitter has hoisted addresses already; loop strength reduction takes a fifth of a
    // compile and gains nothing.
    auto& options = llvm::cl::getRegisteredOptions();
    for (auto [name, value] : {std::pair("enable-misched", "false"), std::pair("disable-lsr", "true")})
      if (auto found = options.find(name); found != options.end())
        found->second->addOccurrence(0, name, value);
    llvm::install_fatal_error_handler([](void*, const char* reason, bool) { throw LlvmFatal(reason); });
    std::string error;
    return llvm::TargetRegistry::lookupTarget(kTriple, error);
  }();
  return target;
}

// A TargetMachine takes a millisecond to make and serves one thread at a time.
class Machines {
 public:
  std::unique_ptr<llvm::TargetMachine> take() {
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        auto machine = std::move(free_.back());
        free_.pop_back();
        return machine;
      }
    }
    if (!target()) return nullptr;
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    options.FunctionSections = true;  // for slice()
    // The attributes of each function name the CPU.
    return std::unique_ptr<llvm::TargetMachine>(
        target()->createTargetMachine(kTriple, "x86-64", "", options, llvm::Reloc::PIC_,
                                      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  }
  void give_back(std::unique_ptr<llvm::TargetMachine> machine) {
    std::lock_guard lock(mutex_);
    if (free_.size() < kThreads) free_.push_back(std::move(machine));
  }
  // After a fatal error both are in an unknown state. They are never used again and never destroyed.
  void bury(std::unique_ptr<llvm::TargetMachine> machine, llvm::LLVMContext* context) {
    std::lock_guard lock(mutex_);
    buried_.emplace_back(machine.release(), context);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<llvm::TargetMachine>> free_;
  std::vector<std::pair<llvm::TargetMachine*, llvm::LLVMContext*>> buried_;
};

Machines& machines() {
  static Machines& machines = *new Machines;
  return machines;
}

// The text of the emitter is already hoisted and without repetition, so no pass runs before code generation
// (bench/compile.cc measures both variants).
Result<std::string> generate(std::string_view text, llvm::TargetMachine& machine,
                             llvm::LLVMContext& context) {
  std::string complaints;
  context.setDiagnosticHandlerCallBack(
      [](const llvm::DiagnosticInfo* info, void* out) {
        if (info->getSeverity() != llvm::DS_Error) return;
        llvm::raw_string_ostream stream(*static_cast<std::string*>(out));
        llvm::DiagnosticPrinterRawOStream printer(stream);
        info->print(printer);
      },
      &complaints);
  llvm::SMDiagnostic error;
  std::unique_ptr<llvm::Module> module = llvm::parseAssembly(
      llvm::MemoryBufferRef(llvm::StringRef(text.data(), text.size()), "kernel"), error, context);
  if (!module) {
    std::string message;
    llvm::raw_string_ostream stream(message);
    error.print("", stream, false);
    return failed(message);
  }
  module->setTargetTriple(kTriple);
  module->setDataLayout(machine.createDataLayout());
#ifndef NDEBUG
  std::string broken;
  llvm::raw_string_ostream stream(broken);
  if (llvm::verifyModule(*module, &stream)) return failed(broken);
#endif
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream out(object);
  {
    llvm::legacy::PassManager passes;
    if (machine.addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile, true))
      return failed("cannot write an object");
    passes.run(*module);
  }
  if (!complaints.empty()) return failed(complaints);
  return std::string(object.begin(), object.end());
}

}  // namespace

std::string llvm_text(const Kernel& kernel, Isa isa) { return emit_llvm(legalize_for_llvm(kernel), isa); }

Result<std::string> compile_object(std::string_view text) {
  const NoFork no_fork;
  std::unique_ptr<llvm::TargetMachine> machine = machines().take();
  if (!machine) return failed("no X86 target");
  auto* context = new llvm::LLVMContext;
  try {
    Result<std::string> object = generate(text, *machine, *context);
    delete context;
    machines().give_back(std::move(machine));
    return object;
  } catch (const LlvmFatal& fatal) {
    machines().bury(std::move(machine), context);
    return failed(fatal.what());
  }
}

// The code of one kernel text: being compiled, or compiled and perhaps released by its users since.
struct Entry {
  bool building = true;
  Status status;
  std::weak_ptr<const Code> code;
  std::shared_ptr<const Code> fresh;  // kept until all `waiting` requests have it
  int waiting = 0;
};

struct Compiler::Impl {
  std::mutex mutex;
  std::condition_variable built;
  std::unordered_map<std::string, std::shared_ptr<Entry>> entries;  // by ISA and canonical text
  size_t sweep_at = 1024;
  Stats stats;

  // Removes entries whose code is released.
  void sweep() {
    if (entries.size() < sweep_at) return;
    std::erase_if(entries, [](const auto& e) { return !e.second->building && e.second->code.expired(); });
    sweep_at = std::max<size_t>(1024, 2 * entries.size());
  }
};

namespace {

struct Job {
  const Kernel* kernel;
  std::string key;
  std::shared_ptr<Entry> entry;
  Status status = {};
  std::shared_ptr<const Code> code = {};
  std::string text = {};  // LLVM text; its function is named @kernel
  DiskRequest object = {};
  bool from_disk = false;
};

void finish(Job& job, const Linked& linked, const Linked::Symbol& symbol) {
  auto code = std::make_shared<jit::Code>();
  code->function = reinterpret_cast<KernelFn>(symbol.address);
  code->symbol = job.kernel->name;
  code->memory = tell_name(job.kernel->name, symbol, linked.memory);
  job.code = std::move(code);
}

constexpr std::string_view kHead = "define void @";
constexpr std::string_view kPlainName = "kernel";

// Replaces all names by numbers, so that equal code has equal text.
Kernel without_names(const Kernel& kernel) {
  Kernel plain = kernel;
  plain.name = kPlainName;
  plain.names.assign(plain.types.size(), "");
  for (size_t i = 0; i < plain.sizes.size(); ++i) plain.sizes[i] = "s" + std::to_string(i);
  for (size_t i = 0; i < plain.buffers.size(); ++i) plain.buffers[i].name = "b" + std::to_string(i);
  return plain;
}

// Emits the text of the job. Returns whether its code was on disk.
bool emit_or_find(Job& job, Isa isa) {
  if (dump_wanted("kernel")) dump("kernel", print(*job.kernel));
  if (dump_wanted("llvm")) dump("llvm", llvm_text(*job.kernel, isa));
  job.text = llvm_text(without_names(*job.kernel), isa);
  TENON_CHECK(job.text.starts_with(std::string(kHead) + std::string(kPlainName) + "("), job.text);
  job.object = {disk_key({"tenon object", kProducer, job.text, job.key}), job.key, job.kernel->name,
                isa_name(isa), isa_needs(isa)};
  return job.from_disk = DiskCache::get().find(job.object, [&](const std::string& object) -> Status {
    TENON_ASSIGN(const Linked linked, link(object));
    if (linked.functions.size() != 1) return failed("it holds no single function");
    finish(job, linked, linked.functions.begin()->second);
    return {};
  });
}

// Splits an emitted text into its function and the lines after it, which declare the functions that it calls.
std::pair<std::string_view, std::vector<std::string_view>> parts(std::string_view text) {
  constexpr std::string_view kEnd = "\n}\n";
  const size_t end = text.find(kEnd) + kEnd.size();
  std::vector<std::string_view> lines;
  for (std::string_view rest = text.substr(end); !rest.empty(); rest.remove_prefix(lines.back().size() + 1))
    lines.push_back(rest.substr(0, rest.find('\n')));
  return {text.substr(0, end), lines};
}

// Compiles all these jobs as one module.
Status compile_jobs(std::span<Job* const> jobs) {
  std::string text;
  auto symbol = [](size_t i) { return std::string(kPlainName) + std::to_string(i); };
  std::set<std::string_view> declarations;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const auto [function, declared] = parts(jobs[i]->text);
    text += std::string(kHead) + symbol(i) + std::string(function.substr(kHead.size() + kPlainName.size())) +
            "\n";
    declarations.insert(declared.begin(), declared.end());
  }
  for (std::string_view line : declarations) text += std::string(line) + "\n";
  const auto start = std::chrono::steady_clock::now();
  TENON_ASSIGN(std::string object, compile_object(text));
  TENON_ASSIGN(Linked linked, link(object));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  for (size_t i = 0; i < jobs.size(); ++i) {
    auto it = linked.functions.find(symbol(i));
    if (it == linked.functions.end()) return failed("no function " + symbol(i));
    finish(*jobs[i], linked, it->second);
    DiskCache::get().keep(jobs[i]->object, slice(object, symbol(i)), kProducer);
    log_row("compile", "kernel,isa,bytes,ms,why",
            {jobs[i]->kernel->name, std::string(jobs[i]->object.target), std::to_string(it->second.size),
             std::to_string(took.count() / static_cast<double>(jobs.size())),
             "neither this process nor the disk has its code"});
  }
  return {};
}

// An exception, for example of llvm_text, is our bug, but must not end the host.
template <class Work>
Status or_internal(Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return tenon::environment("out of memory");
  } catch (const std::exception& error) {  // InternalError
    return {tenon::Code::internal, error.what()};
  }
}

void build_all(std::vector<Job>& jobs, Isa isa, double& milliseconds) {
  const size_t threads = parallel_width(kThreads, jobs.size());
  const size_t batch = std::clamp<size_t>(jobs.size() / threads / 2, 1, kBatch);
  std::atomic<size_t> next = 0;
  std::atomic<int64_t> nanoseconds = 0;
  auto work = [&] {
    auto start = std::chrono::steady_clock::now();
    std::vector<Job*> missing;
    auto compile_missing = [&] {
      if (missing.empty()) return;
      const Status status = or_internal([&] { return compile_jobs(missing); });
      for (Job* job : missing) job->status = status;
      missing.clear();
    };
    for (size_t i; (i = next++) < jobs.size();) {
      bool found = false;
      jobs[i].status = or_internal([&]() -> Status {
        found = emit_or_find(jobs[i], isa);
        return {};
      });
      if (!found && jobs[i].status.ok()) missing.push_back(&jobs[i]);
      if (missing.size() >= batch) compile_missing();
    }
    compile_missing();
    nanoseconds += std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  };
  parallel_invoke(kThreads, jobs.size(), work);
  milliseconds = static_cast<double>(nanoseconds) / 1e6;
}

}  // namespace

Compiler::Compiler() : impl_(std::make_unique<Impl>()) {}

Compiler& Compiler::get() {
  static Compiler& compiler = *new Compiler;
  return compiler;
}

Result<std::vector<std::shared_ptr<const Code>>> Compiler::compile(const std::vector<const Kernel*>& kernels,
                                                                   Isa isa, int* compiled) {
  if (compiled) *compiled = 0;
  const NoFork no_fork;
  std::vector<std::shared_ptr<const jit::Code>> codes(kernels.size());
  std::vector<std::shared_ptr<Entry>> entries(kernels.size());
  std::vector<Job> jobs;
  std::vector<std::string> keys;
  for (const Kernel* kernel : kernels) {
    TENON_TRY(verify(*kernel));
    keys.push_back(std::string(isa_name(isa)) + "\n" + canonical_text(*kernel));
  }
  {
    std::lock_guard lock(impl_->mutex);
    impl_->sweep();
    for (size_t i = 0; i < kernels.size(); ++i) {
      std::shared_ptr<Entry>& entry = impl_->entries[keys[i]];
      if (entry && !entry->building && (codes[i] = entry->code.lock())) {
        ++impl_->stats.shared;
        continue;
      }
      if (entry && entry->building) {
        ++impl_->stats.shared;
      } else {
        entry = std::make_shared<Entry>();
        jobs.push_back({kernels[i], keys[i], entry});
      }
      ++entry->waiting;
      entries[i] = entry;
    }
  }
  if (!jobs.empty()) {
    double milliseconds = 0;
    build_all(jobs, isa, milliseconds);
    std::lock_guard lock(impl_->mutex);
    impl_->stats.milliseconds += milliseconds;
    for (Job& job : jobs) {
      job.entry->building = false;
      job.entry->status = job.status;
      job.entry->code = job.entry->fresh = job.code;
      if (!job.status.ok())
        impl_->entries.erase(job.key);  // so that the next request tries again
      else
        ++(job.from_disk ? impl_->stats.from_disk : impl_->stats.compiled);
      if (compiled && job.status.ok() && !job.from_disk) ++*compiled;
    }
    impl_->built.notify_all();
  }
  Status status;
  std::unique_lock lock(impl_->mutex);
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (codes[i]) continue;
    Entry& entry = *entries[i];
    impl_->built.wait(lock, [&] { return !entry.building; });
    codes[i] = entry.fresh;
    if (--entry.waiting == 0) entry.fresh.reset();
    if (!entry.status.ok() && status.ok()) status = entry.status.at("kernel @" + kernels[i]->name);
  }
  if (!status.ok()) return status;
  return codes;
}

Compiler::Stats Compiler::stats() const {
  const NoFork no_fork;
  std::lock_guard lock(impl_->mutex);
  Stats stats = impl_->stats;
  stats.code_bytes = CodePool::get().bytes_in_use();
  return stats;
}

}  // namespace tenon::jit
