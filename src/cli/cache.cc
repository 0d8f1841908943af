// tenon cache ls | stat | prune | verify | export FILE | import FILE: the compiled kernels and optimised graphs on disk
// (src/base/store/store.h), in the directory that the environment names. A missing directory counts as empty.
// Tested by tests/cli_test.py.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "src/base/cpu.h"
#include "src/base/store/store.h"
#include "src/base/text.h"
#include "src/cli/verbs.h"
#include "src/runtime/compile/kept_graph.h"

namespace tenon::cli {
namespace {

std::string size_text(int64_t bytes) {
  if (bytes < 10 << 10) return fmt::format("{} B", bytes);
  if (bytes < 10 << 20) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1 << 10));
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string time_text(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  gmtime_r(&time, &parts);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", parts);
}

// "graph", or the most advanced instruction set that a kernel needs.
std::string kind_of(const StoreEntry& entry) {
  const std::string& needs = entry.needs;
  if (entry.producer.starts_with(kGraphProducer)) return "graph";
  if (needs.empty()) return "gpu";
  return needs.find("avx512") != needs.npos ? "avx512" : needs.find("avx2") != needs.npos ? "avx2" : "x86-64";
}

std::string unusable(const StoreEntry& entry) {
  const std::string lack = cpu_lacks(entry.needs);
  return lack.empty() ? "" : "  needs " + lack + ", which this machine lacks";
}

// The text of an entry may come from any machine, so unprintable bytes are escaped.
void print_entry(std::string_view line) { print_line(printable(line)); }

int ls(Store& store, const std::vector<Store::Item>& items) {
  for (const Store::Item& item : items) {
    const Result<StoreEntry> entry = store.read(item.file);
    const std::string file = item.file.substr(0, 32);
    if (!entry.ok()) {
      print_entry(fmt::format("{}  {:>9}  {}  unusable: {}", file, size_text(item.bytes),
                              time_text(item.used), entry.status().message()));
      continue;
    }
    print_entry(fmt::format("{}  {:>9}  {}  {:<7} {:<30} {}{}", file, size_text(item.bytes),
                            time_text(item.used), kind_of(*entry), entry->name, entry->producer,
                            unusable(*entry)));
  }
  return kDone;
}

int stat(Store& store, const std::vector<Store::Item>& items) {
  int64_t bytes = 0;
  for (const Store::Item& item : items) bytes += item.bytes;
  const Status usable = store.check();
  print_line(fmt::format("directory  {}{}", store.options().directory,
                         usable.ok() ? "" : " (not there yet: " + usable.message() + ")"));
  print_line(fmt::format("mode       {}", store.options().mode == StoreMode::on ? "on" : "read"));
  print_line(fmt::format("entries    {}", items.size()));
  print_line(fmt::format("size       {} of {}", size_text(bytes), size_text(store.options().limit)));
  if (!items.empty())
    print_line(
        fmt::format("used       {} to {}", time_text(items.front().used), time_text(items.back().used)));
  return kDone;
}

int verify(Store& store, const std::vector<Store::Item>& items, bool remove) {
  int bad = 0, others = 0;
  const std::string format = ".tk" + std::to_string(kStoreFormat);
  for (const Store::Item& item : items) {
    if (!item.file.ends_with(format)) {  // of another version of the library, which may still use it
      ++others;
      continue;
    }
    const Result<StoreEntry> entry = store.read(item.file);
    if (entry.ok()) continue;
    ++bad;
    std::string line = item.file + ": " + entry.status().message();
    if (remove) line += store.remove(item.file).ok() ? ": removed" : ": cannot be removed";
    print_entry(line);
  }
  print_line(fmt::format("{} entries, {} damaged{}", items.size() - static_cast<size_t>(others), bad,
                         others ? fmt::format("; {} of another version, not checked", others) : ""));
  return bad == 0 || remove ? kDone : kFailed;
}

void tell_skipped(const std::string& entry, const std::string& why) {
  std::fprintf(stderr, "tenon: skipped %s: %s\n", printable(entry).c_str(), printable(why).c_str());
}

}  // namespace

int cache(const CacheArgs& args) {
  Store& store = Store::process();
  if (store.options().mode == StoreMode::off)
    return fail(environment("the cache is off: " + store.options().why));
  if (args.verb == "import") {
    const Result<int64_t> count = import_store(store, args.file, tell_skipped);
    if (!count.ok()) return fail(count.status());
    print_line(fmt::format("{} entries into {}", *count, store.options().directory));
    return kDone;
  }
  std::vector<Store::Item> items;
  if (Result<std::vector<Store::Item>> found = store.list(); found.ok())
    items = *found;
  else if (!store.missing())
    return fail(found.status());
  if (args.verb == "ls") return ls(store, items);
  if (args.verb == "stat") return stat(store, items);
  if (args.verb == "verify") return verify(store, items, args.remove);
  if (items.empty() && store.missing())
    return args.verb == "prune" ? kDone : fail(environment("there is nothing to export"));
  if (args.verb == "prune") {
    const Result<Store::Pruned> pruned = store.prune(args.bytes >= 0 ? args.bytes : store.options().limit);
    if (!pruned.ok()) return fail(pruned.status());
    print_line(fmt::format("removed {} entries, {}; {} are left, {}", pruned->removed,
                           size_text(pruned->removed_bytes), pruned->kept, size_text(pruned->kept_bytes)));
    return kDone;
  }
  const Result<int64_t> count = export_store(store, args.file, tell_skipped);
  if (!count.ok()) return fail(count.status());
  print_line(fmt::format("{} entries into {}", *count, args.file));
  return kDone;
}

}  // namespace tenon::cli
