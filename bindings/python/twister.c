/* See twister.h. The compiler vectorizes the loops over a block. */
#include "bindings/python/twister.h"

#include <math.h>
#include <string.h>

enum { kShift = 397, kPairs = kTwisterWords / 2 };

#if defined(__x86_64__) && defined(__GLIBC__)
#define FOR_EACH_CPU __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define FOR_EACH_CPU
#endif

static inline uint32_t twisted(uint32_t a, uint32_t b) {
  const uint32_t y = (a & 0x80000000u) | (b & 0x7fffffffu);
  return (y >> 1) ^ (-(b & 1u) & 0x9908b0dfu);
}

/* Replaces a block by the next one. */
FOR_EACH_CPU static void refill(uint32_t* words) {
  for (int i = 0; i < kTwisterWords - kShift; i++)
    words[i] = words[i + kShift] ^ twisted(words[i], words[i + 1]);
#pragma GCC ivdep /* 227 words lie between the word that is read and the one that is written */
  for (int i = kTwisterWords - kShift; i < kTwisterWords - 1; i++)
    words[i] = words[i + kShift - kTwisterWords] ^ twisted(words[i], words[i + 1]);
  words[kTwisterWords - 1] = words[kShift - 1] ^ twisted(words[kTwisterWords - 1], words[0]);
}

FOR_EACH_CPU static void temper(const uint32_t* restrict words, uint32_t* restrict out, int count) {
  for (int i = 0; i < count; i++) {
    uint32_t y = words[i];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    out[i] = y ^ y >> 18;
  }
}

/* below[i]: 1 if the lower 53 bits of pair i are below the limit, else 0. */
FOR_EACH_CPU static void compare(const uint32_t* restrict pairs, uint8_t* restrict below, int count,
                                 int64_t limit) {
  for (int i = 0; i < count; i++) {
    const uint64_t number = (uint64_t)pairs[2 * i] << 32 | pairs[2 * i + 1];
    below[i] = (int64_t)(number & ((1ull << 53) - 1)) < limit;
  }
}

/* Eight bytes that are 0 or 1 as the bits of one byte. */
static uint8_t packed(const uint8_t* bytes) {
  uint64_t word = 0;
  for (int i = 0; i < 8; i++) word |= (uint64_t)bytes[i] << 8 * i;
  return (uint8_t)(word * 0x0102040810204080u >> 56); /* the product has byte i as bit 56 + i */
}

void twister_bits(Twister* state, uint8_t* bits, int64_t count, double p) {
  uint32_t words[kTwisterWords], tempered[kTwisterWords + 1];
  uint8_t below[kPairs + 8];
  int next = (int)state->next, left = state->left - 1; /* words of this block */
  int waiting = 0, unpacked = 0; /* tempered words, and bytes of `below`, in front of new ones */
  const int64_t limit = (int64_t)ceil(ldexp(p, 53));
  for (int i = 0; i < kTwisterWords; i++) words[i] = (uint32_t)state->words[i];
  while (count > 0) {
    if (left == 0) {
      refill(words);
      next = 0;
      left = kTwisterWords;
    }
    const int64_t wanted = 2 * count - waiting;
    const int taken = left < wanted ? left : (int)wanted, pairs = (waiting + taken) / 2;
    temper(words + next, tempered + waiting, taken);
    next += taken;
    left -= taken;
    compare(tempered, below + unpacked, pairs, limit);
    const int bytes = (unpacked + pairs) / 8;
    for (int i = 0; i < bytes; i++) *bits++ = packed(below + 8 * i);
    unpacked = (unpacked + pairs) % 8;
    memmove(below, below + 8 * bytes, (size_t)unpacked);
    if ((waiting + taken) % 2) tempered[0] = tempered[waiting + taken - 1];
    waiting = (waiting + taken) % 2;
    count -= pairs;
  }
  if (unpacked) {
    memset(below + unpacked, 0, (size_t)(8 - unpacked));
    *bits = packed(below);
  }
  state->next = (uint64_t)next;
  state->left = left + 1;
  for (int i = 0; i < kTwisterWords; i++) state->words[i] = words[i];
}
