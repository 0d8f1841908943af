// See store.h. Every access goes through the descriptor of the directory. Its owner and permissions are
// checked when it is opened, because a user who can write there can run code in this process. The length of
// the file `written` counts what all processes have stored since the last pruning, one byte per 4 KiB:
// appending is atomic, and reading the length costs one fstat.
#include "src/base/store/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>

#include "src/base/cpu.h"
#include "src/base/env.h"
#include "src/base/text.h"

namespace tenon {
namespace {

constexpr int64_t kTouchEvery = 600, kTemporaryLives = 3600;  // seconds
constexpr int64_t kBlock = 4096;                              // bytes that one byte of `written` stands for
constexpr const char* kWritten = "written";
constexpr std::string_view kSuffix = ".tk", kTemporary = ".tmp-";

struct Descriptor {
  int fd = -1;
  explicit Descriptor(int number) : fd(number) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

// Blocks SIGXFSZ: writing beyond RLIMIT_FSIZE is then an error like a full disk, and not a signal that ends
// the host.
class NoSizeSignal {
 public:
  NoSizeSignal() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~NoSizeSignal() {
    if (sigismember(&before_, SIGXFSZ)) return;
    const timespec now{};
    sigtimedwait(&set_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t set_, before_;
};

// Files of root are trusted, as the library itself is: a container image may bring a cache for any user.
Status trusted(const struct stat& s, const std::string& what) {
  if (s.st_uid != geteuid() && s.st_uid != 0)
    return environment(what + " belongs to user " + std::to_string(s.st_uid) + ", this process is user " +
                       std::to_string(geteuid()));
  if (s.st_mode & (S_IWGRP | S_IWOTH)) return environment(what + " may be written by others: chmod go-w it");
  return {};
}

// Creates the directory and its parents; new ones are private.
Status make_directories(const std::string& path) {
  for (size_t at = 1; at <= path.size(); ++at)
    if (at == path.size() || path[at] == '/')
      if (::mkdir(path.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST && at == path.size())
        return system_error(path);
  return {};
}

Status write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return system_error("write");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Result<std::string> read_all(int fd, int64_t size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t n = ::read(fd, bytes.data() + have, bytes.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("read");
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  bytes.resize(have);
  return bytes;
}

// 32 hexadecimal digits, ".tk" and the format. Entries of other formats count for the limit; otherwise they
// are left alone.
bool is_entry(std::string_view file) {
  return file.size() > 35 && file.substr(32, 3) == kSuffix &&
         file.substr(0, 32).find_first_not_of("0123456789abcdef") == file.npos &&
         file.substr(35).find_first_not_of("0123456789") == file.npos;
}

int64_t seconds(const timespec& t) { return static_cast<int64_t>(t.tv_sec); }

}  // namespace

std::string store_file_name(const Hash128& key) {
  return key.hex() + std::string(kSuffix) + std::to_string(kStoreFormat);
}

StoreOptions StoreOptions::from_env() {
  StoreOptions options;
  const std::string mode = env::cache();
  if (mode == "off" || mode == "0") {
    options.mode = StoreMode::off;
    options.why = "TENON_CACHE=" + mode;
    return options;
  }
  if (mode == "read") options.mode = StoreMode::read;
  if (auto bytes = read_bytes(env::cache_bytes())) options.limit = *bytes;
  options.directory = env::cache_dir();
  if (options.directory.empty())
    if (const std::string home = env_cache_home(); !home.empty()) options.directory = home + "/tenon";
  if (options.directory.empty()) {
    options.mode = StoreMode::off;
    options.why = "neither TENON_CACHE_DIR nor XDG_CACHE_HOME nor HOME says where";
  }
  return options;
}

Store::Store(StoreOptions options) : options_(std::move(options)) {}

Store::~Store() {
  if (const int dir = dir_; dir >= 0) ::close(dir);
}

Store& Store::process() {
  static Store& store = *new Store(StoreOptions::from_env());
  return store;
}

Result<int> Store::directory(bool create) {
  if (const int dir = dir_; dir >= 0) return dir;
  if (options_.mode == StoreMode::off) return environment(options_.why);
  const std::string& path = options_.directory;
  if (create) TENON_TRY(make_directories(path));
  Descriptor dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (dir.fd < 0) return system_error(path);
  struct stat s;
  if (::fstat(dir.fd, &s) != 0) return system_error(path);
  TENON_TRY(trusted(s, path));
  int none = -1;
  if (dir_.compare_exchange_strong(none, dir.fd)) dir.fd = -1;
  return dir_.load();
}

Status Store::check() { return directory(false).status(); }

bool Store::missing() const { return ::access(options_.directory.c_str(), F_OK) != 0 && errno == ENOENT; }

Result<std::string> Store::read_file(const std::string& file, bool touch) {
  TENON_ASSIGN(const int dir, directory(false));
  Descriptor in(::openat(dir, file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (in.fd < 0) return system_error(file);
  struct stat s;
  if (::fstat(in.fd, &s) != 0) return system_error(file);
  if (!S_ISREG(s.st_mode)) return environment("not an ordinary file");
  TENON_TRY(trusted(s, "the file"));
  if (s.st_size > kMaxEntryBytes) return invalid("the file is larger than any entry");
  TENON_ASSIGN(std::string bytes, read_all(in.fd, s.st_size));
  if (touch && options_.mode == StoreMode::on && std::time(nullptr) - seconds(s.st_mtim) > kTouchEvery)
    (void)::futimens(in.fd, nullptr);  // may fail: the file then only looks older than it is
  return bytes;
}

Store::Found Store::load(const Hash128& key, std::string_view text) {
  Found found;
  const std::string file = store_file_name(key);
  const Result<int> dir = directory(false);
  if (!dir.ok() || ::faccessat(*dir, file.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
    ++count_.misses;
    return found;
  }
  found.kind = Found::refused;
  Result<std::string> bytes = read_file(file, true);
  bool useless = false;
  if (!bytes.ok()) {
    found.why = bytes.status().message();
    useless = bytes.status().code() == Code::invalid;
  } else if (Result<StoreEntry> entry = decode(*bytes); !entry.ok()) {
    found.why = entry.status().message();
    useless = true;
  } else if (entry->key != key) {
    found.why = "the file holds the entry " + entry->key.hex();
    useless = true;
  } else if (entry->text != text) {
    found.why = "it is another kernel of the same hash";
  } else if (const std::string lack = cpu_lacks(entry->needs); !lack.empty()) {
    found.why = "it needs " + lack + ", which this machine lacks";
  } else {
    found.kind = Found::hit;
    found.bytes = static_cast<int64_t>(bytes->size());
    found.entry = std::move(*entry);
    ++count_.hits;
    count_.bytes_read += found.bytes;
    return found;
  }
  ++count_.misses;
  ++count_.refused;
  if (useless) ++count_.damaged;
  if (useless && options_.mode == StoreMode::on && remove(file).ok()) found.why += "; removed";
  return found;
}

void Store::reject(const Hash128& key) {
  --count_.hits;
  ++count_.misses;
  ++count_.refused;
  ++count_.damaged;
  if (options_.mode == StoreMode::on) (void)remove(store_file_name(key));
}

Result<int64_t> Store::save(const StoreEntry& entry) {
  if (options_.mode != StoreMode::on) return environment("nothing is written: TENON_CACHE=read or off");
  if (read_only_) return environment("the directory is read-only");
  auto failed = [&](Status status) {
    ++count_.failed_stores;
    return status;
  };
  const Result<int> dir = directory(true);
  if (!dir.ok()) return failed(dir.status());
  const std::string bytes = encode(entry), file = store_file_name(entry.key);
  const auto size = static_cast<int64_t>(bytes.size());
  if (size > std::min(kMaxEntryBytes, options_.limit))
    return failed(environment("larger than an entry may be"));

  static std::atomic<uint64_t> serial = 0;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::string temporary = std::string(kTemporary) + entry.key.hex() + "-" + std::to_string(getpid()) +
                                "-" + std::to_string(now.tv_nsec) + "-" + std::to_string(++serial);
  {
    const NoSizeSignal guard;
    Descriptor out(
        ::openat(*dir, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (out.fd < 0) {
      read_only_ = errno == EROFS || errno == EACCES || errno == EPERM;
      return failed(system_error(options_.directory));
    }
    Status written = write_all(out.fd, bytes);
    // Some file systems report a full disk only here.
    if (written.ok() && ::close(std::exchange(out.fd, -1)) != 0) written = system_error("close");
    if (written.ok() && ::renameat(*dir, temporary.c_str(), *dir, file.c_str()) != 0)
      written = system_error("rename");
    if (!written.ok()) {
      ::unlinkat(*dir, temporary.c_str(), 0);
      return failed(written);
    }
  }
  ++count_.stores;
  count_.bytes_written += size;
  prune_when_due(*dir, size);
  return size;
}

void Store::prune_when_due(int dir, int64_t written) {
  Descriptor counter(
      ::openat(dir, kWritten, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (counter.fd < 0) return;
  const std::string blocks(static_cast<size_t>((written + kBlock - 1) / kBlock), '.');
  struct stat s;
  const NoSizeSignal guard;
  if (!write_all(counter.fd, blocks).ok() || ::fstat(counter.fd, &s) != 0) return;
  if (s.st_size * kBlock <= options_.limit / 16) return;
  if (::flock(counter.fd, LOCK_EX | LOCK_NB) != 0) return;  // another process prunes
  if (::ftruncate(counter.fd, 0) == 0) (void)prune_in(dir, options_.limit);
}

Result<std::vector<Store::Item>> Store::list() {
  TENON_ASSIGN(const int dir, directory(false));
  const int fd = ::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, int (*)(DIR*)> stream(fd < 0 ? nullptr : ::fdopendir(fd), &::closedir);
  if (!stream) {
    Status status = system_error(options_.directory);
    if (fd >= 0) ::close(fd);
    return status;
  }
  std::vector<Item> items;
  while (const dirent* each = ::readdir(stream.get())) {
    struct stat s;
    if (!is_entry(each->d_name) || ::fstatat(dir, each->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0) continue;
    items.push_back({each->d_name, static_cast<int64_t>(s.st_size), seconds(s.st_mtim)});
  }
  std::ranges::sort(items, {}, [](const Item& i) { return std::pair(i.used, i.file); });
  return items;
}

Result<StoreEntry> Store::read(const std::string& file) {
  TENON_ASSIGN(const std::string bytes, read_file(file, false));
  TENON_ASSIGN(StoreEntry entry, decode(bytes));
  if (store_file_name(entry.key) != file) return invalid("the file holds the entry " + entry.key.hex());
  return entry;
}

Status Store::remove(const std::string& file) {
  TENON_ASSIGN(const int dir, directory(false));
  if (::unlinkat(dir, file.c_str(), 0) != 0) return system_error(file);
  ++count_.removed;
  return {};
}

Result<Store::Pruned> Store::prune(int64_t limit) {
  TENON_ASSIGN(const int dir, directory(false));
  return prune_in(dir, limit);
}

// Prunes to seven eighths of the limit if the limit is exceeded, so that the next pruning is far away.
Result<Store::Pruned> Store::prune_in(int dir, int64_t limit) {
  TENON_ASSIGN(const std::vector<Item> items, list());
  Pruned result;
  for (const Item& i : items) result.kept_bytes += i.bytes;
  result.kept = static_cast<int64_t>(items.size());
  const int64_t goal = result.kept_bytes > limit ? limit - limit / 8 : limit;
  for (const Item& i : items) {
    if (result.kept_bytes <= goal) break;
    if (::unlinkat(dir, i.file.c_str(), 0) != 0 && errno != ENOENT) continue;
    result.kept_bytes -= i.bytes;
    result.removed_bytes += i.bytes;
    --result.kept;
    ++result.removed;
  }
  count_.removed += result.removed;
  const int fd = ::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, int (*)(DIR*)> stream(fd < 0 ? nullptr : ::fdopendir(fd), &::closedir);
  if (!stream) return result;
  const int64_t now = std::time(nullptr);
  while (const dirent* each = ::readdir(stream.get())) {
    struct stat s;
    if (std::string_view(each->d_name).starts_with(kTemporary) &&
        ::fstatat(dir, each->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
        now - seconds(s.st_mtim) > kTemporaryLives)
      ::unlinkat(dir, each->d_name, 0);
  }
  return result;
}

Store::Stats Store::stats() const {
  return {count_.hits,          count_.misses,     count_.refused,       count_.damaged, count_.stores,
          count_.failed_stores, count_.bytes_read, count_.bytes_written, count_.removed};
}

}  // namespace tenon
