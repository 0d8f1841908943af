// The store of kernels on disk without a compiler: its files, and every kind of fault of a file or directory.
#include "src/base/store/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "src/base/cpu.h"
#include "tests/support/store_help.h"

namespace tenon {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// An entry that depends only on the number, in every process.
StoreEntry entry_of(uint64_t number, size_t bytes = 100) {
  StoreEntry entry;
  entry.text = "text of " + std::to_string(number);
  entry.key = hash128(entry.text);
  entry.needs = "x86-64";
  entry.name = "k" + std::to_string(number);
  entry.producer = "test";
  std::mt19937_64 random(number);
  while (entry.object.size() < bytes) entry.object += static_cast<char>(random());
  return entry;
}

Store::Found load(Store& store, const StoreEntry& entry) { return store.load(entry.key, entry.text); }
std::string path_of(const std::string& directory, const StoreEntry& entry) {
  return directory + "/" + store_file_name(entry.key);
}

TEST(Store, GivesBackWhatWasSaved) {
  ScratchDirectory scratch;
  const std::string directory = scratch / "a/b/cache";
  const StoreEntry entry = entry_of(1);
  {
    Store store(at(directory));
    EXPECT_EQ(load(store, entry).kind, Store::Found::absent) << "and no directory is made by reading";
    EXPECT_FALSE(fs::exists(directory));
    ASSERT_TRUE(store.save(entry).ok());
    EXPECT_EQ(store.stats().stores, 1);
    EXPECT_EQ(store.stats().misses, 1);
  }
  EXPECT_EQ(fs::status(directory).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(path_of(directory, entry)).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  Store store(at(directory));
  Store::Found found = load(store, entry);
  ASSERT_EQ(found.kind, Store::Found::hit) << found.why;
  EXPECT_EQ(found.entry.object, entry.object);
  EXPECT_EQ(found.entry.name, entry.name);
  EXPECT_EQ(files_in(directory, "tmp"), 0);
  EXPECT_EQ(store.load(entry_of(2).key, entry_of(2).text).kind, Store::Found::absent);
}

TEST(Store, AHashProvesNothing) {
  ScratchDirectory scratch;
  Store store(at(scratch / "c"));
  const StoreEntry entry = entry_of(1);
  ASSERT_TRUE(store.save(entry).ok());
  Store::Found found = store.load(entry.key, "another text");
  EXPECT_EQ(found.kind, Store::Found::refused);
  EXPECT_THAT(found.why, HasSubstr("another kernel"));
  EXPECT_EQ(load(store, entry).kind, Store::Found::hit) << "it is somebody's";
}

TEST(Store, WhatTheMachineLacksIsNamed) {
  ScratchDirectory scratch;
  Store store(at(scratch / "c"));
  StoreEntry entry = entry_of(1);
  entry.needs = "x86-64,quantum";
  ASSERT_TRUE(store.save(entry).ok());
  EXPECT_THAT(load(store, entry).why, HasSubstr("needs quantum"));
  EXPECT_TRUE(fs::exists(path_of(scratch / "c", entry))) << "another machine may have it";
  EXPECT_EQ(cpu_lacks("x86-64"), "");
  EXPECT_EQ(cpu_lacks(""), "");
}

// More than ten thousand kinds of damage: flipped bits, bytes cut off and added, exchanged pieces, wrong headers.
TEST(Store, NoDamageIsEverLoaded) {
  ScratchDirectory scratch;
  Store store(at(scratch / "c"));
  const StoreEntry entry = entry_of(1), other = entry_of(2);
  const std::string good = encode(entry), wrong = encode(other), path = path_of(scratch / "c", entry);
  ASSERT_TRUE(store.save(entry).ok());
  int tried = 0, removed = 0;
  auto refuse = [&](const std::string& bytes, const std::string& what) {
    write_bytes(path, bytes);
    Store::Found found = load(store, entry);
    ++tried;
    ASSERT_EQ(found.kind, Store::Found::refused) << what;
    ASSERT_FALSE(found.why.empty()) << what;
    removed += !fs::exists(path);
  };
  for (size_t at = 0; at < good.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      refuse(bytes, "bit " + std::to_string(bit) + " of byte " + std::to_string(at));
    }
  for (size_t size = 0; size < good.size(); ++size)
    refuse(good.substr(0, size), "size " + std::to_string(size));
  for (size_t size = 1; size < 64; ++size) refuse(good + std::string(size, '\0'), "longer");
  for (size_t cut = 0; cut < std::min(good.size(), wrong.size()); ++cut)
    if (good.substr(cut) != wrong.substr(cut) && good.substr(0, cut) != wrong.substr(0, cut)) {
      refuse(good.substr(0, cut) + wrong.substr(cut), "two halves");
      refuse(wrong.substr(0, cut) + good.substr(cut), "two halves");
    }
  std::mt19937_64 random(7);
  for (int round = 0; round < 9000; ++round) {
    std::string bytes = good;
    for (int n = 1 + static_cast<int>(random() % 8); n > 0; --n) {
      const size_t at = random() % bytes.size(),
                   count = std::min<size_t>(random() % 32 + 1, bytes.size() - at);
      switch (random() % 3) {
        case 0: std::memset(bytes.data() + at, static_cast<int>(random()), count); break;
        case 1: bytes.erase(at, count == bytes.size() ? count - 1 : count); break;
        default: bytes.insert(at, std::string(count, static_cast<char>(random())));
      }
    }
    if (bytes != good) refuse(bytes, "round " + std::to_string(round));
  }
  refuse(wrong, "the file of another entry");
  EXPECT_GE(tried, 10000);
  EXPECT_EQ(removed, tried) << "what nobody can use goes";
  write_bytes(path, good);
  EXPECT_EQ(load(store, entry).kind, Store::Found::hit);
}

// Headers with sizes that overflow and right checksums, which the test assembles.
TEST(Store, HeadersThatLieWithARightChecksum) {
  ScratchDirectory scratch;
  const StoreEntry entry = entry_of(1);
  const std::string good = encode(entry);
  constexpr size_t kFormat = 8, kSizes = 40, kChecksum = 96;
  auto with = [&](size_t at, uint64_t value, size_t width) {
    std::string bytes = good;
    std::memcpy(bytes.data() + at, &value, width);
    const uint64_t sum = hash_bytes(std::string_view(bytes).substr(0, kChecksum));
    std::memcpy(bytes.data() + kChecksum, &sum, 8);
    return decode(bytes).status();
  };
  EXPECT_TRUE(with(kFormat, kStoreFormat, 4).ok()) << "the offsets above are wrong";
  EXPECT_THAT(with(kFormat, kStoreFormat + 1, 4).message(), HasSubstr("format 2"));
  for (int part = 0; part < 5; ++part)
    for (uint64_t size :
         {uint64_t{0}, uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - 100, uint64_t{1} << 63})
      EXPECT_FALSE(with(kSizes + 8 * part, size, 8).ok()) << part << " " << size;
}

TEST(Store, FilesThatAreNone) {
  ScratchDirectory scratch;
  Store store(at(scratch / "c"));
  const StoreEntry entry = entry_of(1);
  ASSERT_TRUE(store.save(entry).ok());
  const std::string path = path_of(scratch / "c", entry);
  fs::rename(path, scratch / "elsewhere");
  fs::create_symlink(scratch / "elsewhere", path);
  EXPECT_EQ(load(store, entry).kind, Store::Found::refused) << "a link";
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(load(store, entry).why, HasSubstr("ordinary"));
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_EQ(load(store, entry).kind, Store::Found::refused);
  fs::remove(path);
  fs::copy(scratch / "elsewhere", path);
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_THAT(load(store, entry).why, HasSubstr("written by others"));
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  ASSERT_EQ(truncate(path.c_str(), kMaxEntryBytes + 1), 0);
  EXPECT_THAT(load(store, entry).why, HasSubstr("larger than any"));
}

TEST(Store, DirectoriesThatAreNotOurs) {
  ScratchDirectory scratch;
  const StoreEntry entry = entry_of(1);
  const std::string directory = scratch / "c";
  ASSERT_TRUE(Store(at(directory)).save(entry).ok());
  auto refused = [&](const std::string& path) {
    Store store(at(path));
    EXPECT_NE(load(store, entry).kind, Store::Found::hit);
    EXPECT_FALSE(store.save(entry).ok());
    return store.check().message();
  };
  for (mode_t mode : {0770, 0707, 0777, 01777}) {
    ASSERT_EQ(chmod(directory.c_str(), mode), 0);
    EXPECT_THAT(refused(directory), HasSubstr("written by others")) << mode;
  }
  ASSERT_EQ(chmod(directory.c_str(), 0700), 0);
  EXPECT_THAT(refused(path_of(directory, entry)), HasSubstr("Not a directory"));
  EXPECT_FALSE(refused("/proc/none/such").empty());
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory to another user";
  ASSERT_EQ(chown(directory.c_str(), 12345, 12345), 0);
  EXPECT_THAT(refused(directory), HasSubstr("belongs to user 12345"));
}

// A user without a name, a home or write permission; entries of root are still read.
TEST(Store, ReadOnlyDirectoryAndUnknownUser) {
  ScratchDirectory scratch;
  const StoreEntry entry = entry_of(1), other = entry_of(2);
  const std::string directory = scratch / "c";
  ASSERT_TRUE(Store(at(directory)).save(entry).ok());
  for (const std::string& path : {scratch.path.string(), directory}) ASSERT_EQ(chmod(path.c_str(), 0555), 0);
  ASSERT_EQ(chmod(path_of(directory, entry).c_str(), 0444), 0);
  const int result = in_child([&] {
    if (geteuid() == 0 && setuid(54321) != 0) return 1;
    Store store(at(directory));
    if (load(store, entry).kind != Store::Found::hit) return 2;
    if (store.save(other).ok() || store.save(other).ok()) return 3;
    if (load(store, other).kind != Store::Found::absent) return 4;
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("TENON_CACHE");
    const StoreOptions options = StoreOptions::from_env();
    return options.mode == StoreMode::off && options.why.find("HOME") != std::string::npos ? 0 : 5;
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(files_in(directory, ""), 2) << "the entry and `written`";
  for (const std::string& path : {scratch.path.string(), directory}) ASSERT_EQ(chmod(path.c_str(), 0755), 0);
}

TEST(Store, TheEnvironmentSaysWhere) {
  const int result = in_child([] {
    setenv("HOME", "/h", 1);
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("TENON_CACHE", "on", 1);
    if (StoreOptions::from_env().directory != "/h/.cache/tenon") return 1;
    setenv("XDG_CACHE_HOME", "/x", 1);
    if (StoreOptions::from_env().directory != "/x/tenon") return 2;
    setenv("TENON_CACHE_DIR", "/d", 1);
    if (StoreOptions::from_env().directory != "/d") return 3;
    setenv("TENON_CACHE_BYTES", "3M", 1);
    if (StoreOptions::from_env().limit != 3 << 20) return 4;
    setenv("TENON_CACHE_BYTES", "many", 1);
    if (StoreOptions::from_env().limit != 1 << 30) return 5;
    setenv("TENON_CACHE", "read", 1);
    if (StoreOptions::from_env().mode != StoreMode::read) return 6;
    setenv("TENON_CACHE", "off", 1);
    return StoreOptions::from_env().mode == StoreMode::off ? 0 : 7;
  });
  EXPECT_EQ(result, 0);
}

TEST(Store, ReadModeWritesNothing) {
  ScratchDirectory scratch;
  const StoreEntry entry = entry_of(1);
  ASSERT_TRUE(Store(at(scratch / "c")).save(entry).ok());
  StoreOptions options = at(scratch / "c");
  options.mode = StoreMode::read;
  Store store(options);
  EXPECT_EQ(load(store, entry).kind, Store::Found::hit);
  EXPECT_FALSE(store.save(entry_of(2)).ok());
  write_bytes(path_of(scratch / "c", entry), "damaged");
  EXPECT_EQ(load(store, entry).kind, Store::Found::refused);
  EXPECT_TRUE(fs::exists(path_of(scratch / "c", entry)));
}

// A disk with space for half an entry: a small file system, if one may be mounted, and the limit of file sizes.
TEST(Store, FullDisk) {
  ScratchDirectory scratch;
  const std::string directory = scratch / "c";
  ASSERT_TRUE(Store(at(directory)).save(entry_of(1)).ok());
  auto no_room = [&] {
    Store store(at(directory));
    for (uint64_t n = 100; n < 110; ++n)
      if (Store::Found found = load(store, entry_of(1)); store.save(entry_of(n, 300000)).ok()) return 1;
    if (files_in(directory, "tmp") != 0) return 2;
    return load(store, entry_of(1)).kind == Store::Found::hit ? 0 : 3;
  };
  EXPECT_EQ(in_child([&] {
              const rlimit limit{100000, 100000};
              return setrlimit(RLIMIT_FSIZE, &limit) == 0 ? no_room() : 9;
            }),
            0);
  fs::create_directory(scratch / "small");
  if (mount("tmpfs", (scratch / "small").c_str(), "tmpfs", 0, "size=128k,mode=700") != 0) {
    std::printf("no file system may be mounted here: only the limit of file sizes was tried\n");
    return;
  }
  {
    Store store(at(scratch / "small"));
    int saved = 0, failed = 0;
    for (uint64_t n = 0; n < 40; ++n) ++(store.save(entry_of(n, 9000)).ok() ? saved : failed);
    EXPECT_GT(saved, 0);
    EXPECT_GT(failed, 0);
    int hits = 0;
    for (uint64_t n = 0; n < 40; ++n) {
      Store::Found found = load(store, entry_of(n, 9000));
      EXPECT_NE(found.kind, Store::Found::refused);
      hits += found.kind == Store::Found::hit;
    }
    EXPECT_EQ(hits, saved);
    EXPECT_EQ(files_in(scratch / "small", "tmp"), 0);
  }
  EXPECT_EQ(umount((scratch / "small").c_str()), 0);
}

// Child processes that write all the time are killed at random moments. TENON_TEST_KILLS is their number.
TEST(Store, KilledWritersLeaveNothingTorn) {
  ScratchDirectory scratch;
  const std::string directory = scratch / "c";
  const char* more = std::getenv("TENON_TEST_KILLS");
  const int kills = more ? std::atoi(more) : 200;
  constexpr uint64_t kEntries = 40;
  constexpr size_t kBytes = 60000;
#ifdef __SANITIZE_THREAD__
  constexpr uint64_t kLongestLife =
      40000;  // us until a child is killed, at most; long enough for it to write
#else
  constexpr uint64_t kLongestLife = 4000;
#endif
  std::mt19937_64 random(3);
  for (int round = 0; round < kills; ++round) {
    int started[2];
    ASSERT_EQ(pipe(started), 0);
    const pid_t child = fork();
    if (child == 0) {
      Store store(at(directory));
      (void)!write(started[1], "", 1);
      for (uint64_t n = round;; ++n) (void)store.save(entry_of(n % kEntries, kBytes + n % kEntries));
    }
    char byte;
    ASSERT_EQ(read(started[0], &byte, 1), 1);
    close(started[0]);
    close(started[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % kLongestLife));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    if (round % 20 && round != kills - 1) continue;
    Store store(at(directory));
    for (uint64_t n = 0; n < kEntries; ++n) {
      Store::Found found = load(store, entry_of(n, kBytes + n % kEntries));
      ASSERT_NE(found.kind, Store::Found::refused) << found.why;
      if (found.kind != Store::Found::hit) continue;
      ASSERT_EQ(found.entry.object, entry_of(n, kBytes + n).object);
    }
  }
  Store store(at(directory));
  EXPECT_GT(store.list()->size(), 0u);
  // Old files of dead processes are removed.
  for (const auto& file : fs::directory_iterator(directory))
    fs::last_write_time(file.path(), fs::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_TRUE(store.prune(int64_t{1} << 30).ok());
  EXPECT_EQ(files_in(directory, "tmp"), 0);
  EXPECT_TRUE(store.save(entry_of(1)).ok());
}

TEST(Store, EightProcessesAndPruning) {
  ScratchDirectory scratch;
  const std::string directory = scratch / "c";
  constexpr int64_t kLimit = 200000;
  std::vector<pid_t> children;
  for (int c = 0; c < 8; ++c) {
    const pid_t child = fork();
    if (child == 0) {
      Store store(at(directory, kLimit));
      int wrong = 0;
      for (uint64_t n = 0; n < 300; ++n) {
        const StoreEntry entry = entry_of((n * (c + 1)) % 90, 4000);
        Store::Found found = load(store, entry);
        wrong += found.kind == Store::Found::refused && found.why.find("No such file") == std::string::npos;
        if (found.kind == Store::Found::hit) wrong += found.entry.object != entry.object;
        if (found.kind == Store::Found::absent) wrong += !store.save(entry).ok();
      }
      _exit(wrong);
    }
    children.push_back(child);
  }
  expect_all_well(children);
  // While one process prunes, others store without pruning; the next save prunes again.
  Store store(at(directory, kLimit));
  ASSERT_TRUE(store.save(entry_of(200, 4000)).ok());
  ASSERT_TRUE(store.save(entry_of(201, 4000)).ok());
  int64_t bytes = 0;
  const Result<std::vector<Store::Item>> items = store.list();
  ASSERT_TRUE(items.ok());
  for (const Store::Item& item : *items) bytes += item.bytes;
  EXPECT_LE(bytes, kLimit + kLimit / 16 + 2 * 5000);
  EXPECT_GT(bytes, kLimit / 2);
}

TEST(Store, TheLongestUnusedGoFirst) {
  ScratchDirectory scratch;
  const std::string directory = scratch / "c";
  Store store(at(directory));
  const auto now = fs::file_time_type::clock::now();
  for (uint64_t n = 0; n < 10; ++n) {
    ASSERT_TRUE(store.save(entry_of(n, 5000)).ok());
    fs::last_write_time(path_of(directory, entry_of(n, 5000)), now - std::chrono::hours(20 - n));
  }
  EXPECT_EQ(load(store, entry_of(0, 5000)).kind, Store::Found::hit);  // makes the entry the newest
  Result<Store::Pruned> pruned = store.prune(30000);
  ASSERT_TRUE(pruned.ok());
  EXPECT_EQ(pruned->kept, 5);
  EXPECT_LE(pruned->kept_bytes, 30000);
  for (uint64_t n : {1, 2, 3, 4, 5})
    EXPECT_EQ(load(store, entry_of(n, 5000)).kind, Store::Found::absent) << n;
  for (uint64_t n : {0, 6, 7, 8, 9}) EXPECT_EQ(load(store, entry_of(n, 5000)).kind, Store::Found::hit) << n;
  ASSERT_TRUE(store.prune(0).ok());
  EXPECT_EQ(files_in(directory, ".tk"), 0);
  write_bytes(directory + "/something of the user", "x");
  ASSERT_TRUE(store.prune(0).ok());
  EXPECT_EQ(files_in(directory, "something"), 1);
}

TEST(Store, ArchivesCarryWhatTheMachineCanUse) {
  ScratchDirectory scratch;
  Store from(at(scratch / "from")), to(at(scratch / "to"));
  for (uint64_t n = 0; n < 6; ++n) {
    StoreEntry entry = entry_of(n);
    if (n == 5) entry.needs = "quantum";
    ASSERT_TRUE(from.save(entry).ok());
  }
  write_bytes(path_of(scratch / "from", entry_of(4)), "damaged");
  std::vector<std::string> why;
  auto skipped = [&](const std::string& entry, const std::string& reason) {
    why.push_back(entry + ": " + reason);
  };
  Result<int64_t> out = export_store(from, scratch / "archive", skipped);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(*out, 5);
  EXPECT_EQ(why.size(), 1u);
  Result<int64_t> in = import_store(to, scratch / "archive", skipped);
  ASSERT_TRUE(in.ok()) << in.status().message();
  EXPECT_EQ(*in, 4);
  ASSERT_EQ(why.size(), 2u);
  EXPECT_THAT(why[1], HasSubstr("needs quantum"));
  for (uint64_t n = 0; n < 4; ++n) EXPECT_EQ(load(to, entry_of(n)).kind, Store::Found::hit);

  const std::string archive = file_bytes(scratch / "archive");
  for (size_t size = 0; size < archive.size(); size += 7) {
    Store cut(at(scratch / "cut"));
    write_bytes(scratch / "damaged", archive.substr(0, size));
    Result<int64_t> count = import_store(cut, scratch / "damaged", skipped);
    EXPECT_EQ(count.ok(), size >= 8);
  }
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    Store store(at(scratch / "flipped"));
    std::string bytes = archive;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    write_bytes(scratch / "damaged", bytes);
    (void)import_store(store, scratch / "damaged", skipped);
    const Result<std::vector<Store::Item>> items = store.list();
    if (!items.ok()) continue;  // nothing was taken
    EXPECT_LE(items->size(), 4u);
    for (const Store::Item& item : *items) ASSERT_TRUE(store.read(item.file).ok());
  }
}

}  // namespace
}  // namespace tenon
