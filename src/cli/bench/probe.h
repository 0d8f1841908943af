// Probes: what this machine reaches with nothing else to do, measured, not looked up. Tested by tests/bench_test.py.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::cli {

// Bytes per second of a copy by `threads` threads, read and written bytes together. bytes: of source and destination together; so small
// sizes give the rate of a cache. The best of several copies. cold: the caches are emptied before each copy.
double copy_rate(int64_t bytes, int threads, bool cold = false);
// Operations per second of f32 multiply-adds in registers by `threads` threads, two operations each, with the widest vectors of the CPU.
double multiply_add_rate(int threads);
// "AMD EPYC, 2 cores, L2 1024 KiB, L3 16384 KiB, avx512f".
std::string machine();
// Writes to more memory than the caches hold, with `threads` threads, because each core has caches of its own.
void flush_caches(int threads);

}  // namespace tenon::cli
