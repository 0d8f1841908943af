/* The caches that a host can bound and query: plans of a program, kernels on disk. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capi.h"

/* Runs kScale on `rows` rows of ones. */
static void run_rows(tenon_program* program, int64_t rows) {
  float x[256], w[4] = {1, 2, 3, 4}, y[256];
  int64_t shape[2], four[1] = {4};
  tenon_tensor tx = tensor(x, f32, 2, shape), tw = tensor(w, f32, 1, four), ty = tensor(y, f32, 2, shape);
  const tenon_tensor *in[2], *out[1];
  int64_t i;
  shape[0] = rows, shape[1] = 4;
  in[0] = &tx, in[1] = &tw, out[0] = &ty;
  for (i = 0; i < 256; ++i) x[i] = 1;
  OK(tenon_program_run(program, in, 2, out, 1));
  for (i = 0; i < 4 * rows; ++i) CHECK(y[i] == w[i % 4] + 1);
}

static tenon_program_stats stats_of(tenon_program* program) {
  tenon_program_stats stats;
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  OK(tenon_program_get_stats(program, &stats));
  return stats;
}

void program_options(void) {
  tenon_graph* graph = parse(kScale);
  tenon_program* program = NULL;
  tenon_program_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.reserved1 = -3, options.reserved2 = 1;
  INVALID(tenon_program_create(graph, &options, NULL, 0, &program), "reserved2");
  options.reserved2 = 0, options.device_graphs = 3;
  INVALID(tenon_program_create(graph, &options, NULL, 0, &program), "device_graphs is 3");
  options.device_graphs = TENON_DEVICE_GRAPHS_NEVER;
  OK(tenon_program_create(graph, &options, NULL, 0, &program));
  run_rows(program, 3);
  CHECK(stats_of(program).reserved1 == 0 && stats_of(program).reserved2 == 0);
  tenon_program_release(program);
  tenon_graph_release(graph);
}

void plan_limits(void) {
  tenon_graph* graph = parse(kScale);
  tenon_program* program = NULL;
  tenon_program_options options;
  tenon_program_stats s;
  int64_t rows, one;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.max_plans = -1;
  INVALID(tenon_program_create(graph, &options, NULL, 0, &program), "max_plans|-1");
  options.max_plans = 3, options.max_plan_bytes = INT64_MIN;
  INVALID(tenon_program_create(graph, &options, NULL, 0, &program), "max_plan_bytes|-9223372036854775808");
  CHECK(program == NULL);
  options.max_plan_bytes = 0;
  OK(tenon_program_create(graph, &options, NULL, 0, &program));
  s = stats_of(program);
  CHECK(s.plans == 0 && s.plan_hits == 0 && s.plan_misses == 0 && s.plan_bytes == 0 && s.plan_ms == 0);
  for (rows = 1; rows <= 10; ++rows) run_rows(program, rows);
  s = stats_of(program);
  CHECK(s.plans == 3 && s.plan_misses == 10 && s.plan_evictions == 7 && s.plan_hits == 0 &&
        s.plan_waits == 0);
  CHECK(s.plan_bytes > 0 && s.plan_ms > 0);
  one = s.plan_bytes / 3;
  for (rows = 8; rows <= 10; ++rows) run_rows(program, rows);
  CHECK(stats_of(program).plan_hits == 3);

  /* Limits at run time: by number, by bytes, by both; 0 restores the default. */
  OK(tenon_program_set_limits(program, 2, 0));
  s = stats_of(program);
  CHECK(s.plans == 2 && s.plan_evictions == 8);
  OK(tenon_program_set_limits(program, INT64_MAX, INT64_MAX));
  for (rows = 11; rows <= 30; ++rows) run_rows(program, rows);
  s = stats_of(program);
  CHECK(s.plans == 22 && s.plan_evictions == 8);
  OK(tenon_program_set_limits(program, 0, 5 * one + one / 2));
  s = stats_of(program);
  CHECK(s.plans == 5 && s.plan_bytes <= 5 * one + one / 2 && s.plan_evictions == 25);
  OK(tenon_program_set_limits(program, 1000, 1)); /* one plan is always kept */
  CHECK(stats_of(program).plans == 1);
  run_rows(program, 30);
  CHECK(stats_of(program).plans == 1 && stats_of(program).plan_misses == 30);
  OK(tenon_program_set_limits(program, 0, 0));
  for (rows = 1; rows <= 20; ++rows) run_rows(program, rows);
  CHECK(stats_of(program).plans == 21);

  INVALID(tenon_program_set_limits(program, -2, 0), "max_plans|-2");
  INVALID(tenon_program_set_limits(program, 0, -3), "max_plan_bytes|-3");
  INVALID(tenon_program_set_limits(NULL, 1, 1), "program");
  CHECK(stats_of(program).plans == 21); /* failed calls change nothing */
  tenon_program_release(program);
  tenon_graph_release(graph);
}

static tenon_cache_stats cache_stats(void) {
  tenon_cache_stats stats;
  memset(&stats, 0, sizeof stats);
  stats.struct_size = sizeof stats;
  OK(tenon_cache_get_stats(&stats));
  return stats;
}

/* Runs in a process with TENON_CACHE=off, like all other tests. */
void no_disk_cache(void) {
  tenon_cache_stats s;
  INVALID(tenon_cache_get_stats(NULL), "NULL");
  s.struct_size = 3;
  INVALID(tenon_cache_get_stats(&s), "tenon_cache_stats|struct_size 3");
  tenon_program_release(compile(kScale));
  s = cache_stats();
  CHECK(!strcmp(s.directory, "") && strstr(s.off, "TENON_CACHE=off"));
  CHECK(s.hits == 0 && s.misses == 0 && s.writes == 0 && s.failed_writes == 0);
}

/* Applies `change` to every entry of the directory and returns their number. */
static int each_entry(const char* directory, int (*change)(const char*)) {
  char path[512];
  int count = 0;
  DIR* d = opendir(directory);
  struct dirent* e;
  CHECK(d != NULL);
  while (d && (e = readdir(d)) != NULL) {
    if (!strstr(e->d_name, ".tk")) continue;
    ++count;
    snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
    if (change) CHECK(change(path) == 0);
  }
  if (d) closedir(d);
  return count;
}
static int cut(const char* path) { return truncate(path, 200); }
static int bar(const char* path) { return chmod(path, 0666); } /* others may write it, so it is not trusted */

/* Runs in its own process, since the library reads the environment once. The code of a program is freed with the program, so
 * that the next program asks the disk. */
void disk_cache(void) {
  char directory[] = "/tmp/tenon-capi-XXXXXX", path[600];
  tenon_cache_stats s, former;
  struct stat file;
  CHECK(mkdtemp(directory) != NULL);
  setenv("TENON_CACHE", "on", 1);
  setenv("TENON_CACHE_DIR", directory, 1);
  s = cache_stats();
  CHECK(!strcmp(s.directory, directory) && !strcmp(s.off, "") && s.hits == 0 && s.misses == 0);
  tenon_program_release(compile(kScale));
  s = cache_stats();
  CHECK(s.misses == 1 && s.hits == 0 && s.writes == 1 && s.bytes_read == 0 && s.bytes_written > 100);
  CHECK(s.refused == 0 && s.damaged == 0 && s.failed_writes == 0 && s.removed == 0);
  CHECK(each_entry(directory, NULL) == 1);
  former = s;
  tenon_program_release(compile(kScale));
  s = cache_stats();
  CHECK(s.hits == 1 && s.misses == 1 && s.writes == 1 && s.bytes_read == former.bytes_written);
  CHECK(each_entry(directory, cut) == 1);
  tenon_program_release(compile(kScale)); /* compiled, and stored again */
  s = cache_stats();
  CHECK(s.hits == 1 && s.misses == 2 && s.refused == 1 && s.damaged == 1 && s.removed == 1 && s.writes == 2);
  CHECK(s.bytes_written == 2 * former.bytes_written);
  CHECK(each_entry(directory, bar) == 1);
  tenon_program_release(compile(kScale));
  s = cache_stats();
  CHECK(s.hits == 1 && s.misses == 3 && s.refused == 2 && s.damaged == 1 && s.writes == 3);
  tenon_program_release(compile(kScale));
  CHECK(cache_stats().hits == 2);
  /* An older caller: fields that it does not know stay unchanged. */
  memset(&s, 0xAB, sizeof s);
  s.struct_size = offsetof(tenon_cache_stats, misses);
  OK(tenon_cache_get_stats(&s));
  CHECK(s.hits == 2 && s.misses == (int64_t)0xABABABABABABABAB);

  snprintf(path, sizeof path, "%s/written", directory);
  CHECK(stat(path, &file) == 0);
  CHECK(each_entry(directory, unlink) == 1 && unlink(path) == 0 && rmdir(directory) == 0);
}
