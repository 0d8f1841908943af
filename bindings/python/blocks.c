/* See blocks.h. Blocks are cut from free pieces of large mappings, at the lowest address that has room, and freed pieces join: sizes need
 * not match for memory to be found again. */
#define _GNU_SOURCE
#include "bindings/python/blocks.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static const size_t kPage = 4096; /* blocks are whole pages */
static const size_t kHugePage = (size_t)2 << 20;
static const size_t kLeastMapping = (size_t)64 << 20;
static const unsigned kWindow = 4096; /* blocks taken until a peak of the memory in use counts as old */

/* Free memory. The pages of a warm piece take memory of the system, those of a cold piece do not. */
typedef struct {
  Block block;
  int warm;
} Piece;

/* The pieces by address; neighbors of one kind are one piece. A thread that finds `busy` set does not wait but maps or unmaps its block,
 * so the child of a fork never waits for a thread that it does not have. */
static atomic_flag busy = ATOMIC_FLAG_INIT;
static Piece pieces[1024];
static size_t n_pieces;
static _Atomic size_t idle_bytes, live_bytes; /* of warm pieces; of blocks in use */
static size_t most_live, most_before; /* the largest live_bytes in this window and in the one before it */
static unsigned taken;                /* blocks in this window */

size_t blocks_live(void) { return live_bytes; }
size_t blocks_idle(void) { return idle_bytes; }

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* The mapping starts at a huge page. NULL if the system has no more memory. */
static char* map(size_t bytes) {
  const size_t whole = bytes + kHugePage;
  char* at = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return NULL;
  const size_t before = (kHugePage - (uintptr_t)at % kHugePage) % kHugePage;
  if (before) munmap(at, before);
  at += before;
  munmap(at + bytes, kHugePage - before);
  madvise(at, bytes, MADV_HUGEPAGE);
  return at;
}

static void unmap(Block block) { munmap(block.at, block.bytes); }

/* The functions below are called with `busy` set. */

static char* end_of(size_t i) { return pieces[i].block.at + pieces[i].block.bytes; }

static void remove_piece(size_t i) { memmove(pieces + i, pieces + i + 1, (--n_pieces - i) * sizeof *pieces); }

/* Joins piece i with the one before it if they are neighbors of one kind. */
static void join(size_t i) {
  if (i == 0 || i >= n_pieces || end_of(i - 1) != pieces[i].block.at || pieces[i - 1].warm != pieces[i].warm)
    return;
  pieces[i - 1].block.bytes += pieces[i].block.bytes;
  remove_piece(i);
}

static void add_piece(Block block, int warm) {
  if (n_pieces == sizeof pieces / sizeof *pieces) return unmap(block);
  if (warm) idle_bytes += block.bytes;
  size_t i = n_pieces++;
  for (; i > 0 && pieces[i - 1].block.at > block.at; i--) pieces[i] = pieces[i - 1];
  pieces[i] = (Piece){block, warm};
  join(i + 1);
  join(i);
}

/* The first of neighbors that have these bytes together, at the lowest address. n_pieces: there are none. */
static size_t find(size_t bytes) {
  size_t first = 0, room = 0;
  for (size_t i = 0; i < n_pieces; i++) {
    if (i > first && end_of(i - 1) != pieces[i].block.at) first = i, room = 0;
    room += pieces[i].block.bytes;
    if (room >= bytes) return first;
  }
  return n_pieces;
}

/* Takes these bytes from the neighbors that begin with piece `first`. */
static char* cut(size_t first, size_t bytes) {
  char* at = pieces[first].block.at;
  while (bytes > 0) {
    Piece* piece = &pieces[first];
    const size_t part = bytes < piece->block.bytes ? bytes : piece->block.bytes;
    if (piece->warm) idle_bytes -= part;
    piece->block.at += part;
    piece->block.bytes -= part;
    if (piece->block.bytes == 0) remove_piece(first);
    bytes -= part;
  }
  return at;
}

/* Gives at least these bytes of warm pieces back to the system, at the highest addresses; from the start of a huge page where it can. */
static void cool(size_t bytes) {
  for (size_t i = n_pieces; i-- > 0 && bytes > 0;) {
    if (!pieces[i].warm) continue;
    Block part = pieces[i].block;
    if (bytes < part.bytes) {
      const size_t kept = part.bytes - bytes, beyond = (uintptr_t)(part.at + kept) % kHugePage;
      part.at += kept > beyond ? kept - beyond : 0;
      part.bytes = end_of(i) - part.at;
    }
    madvise(part.at, part.bytes, MADV_DONTNEED);
    bytes -= bytes < part.bytes ? bytes : part.bytes;
    idle_bytes -= part.bytes;
    pieces[i].block.bytes -= part.bytes;
    if (pieces[i].block.bytes == 0) remove_piece(i);
    add_piece(part, 0);
  }
}

/* Warm pieces never raise the peak: they and blocks in use together take at most the memory that blocks in use took in this window or the
 * one before it. */
static void keep_to_peak(size_t live) {
  most_live = larger(most_live, live);
  if (++taken == kWindow) most_before = most_live, most_live = live, taken = 0;
  const size_t limit = larger(most_live, most_before);
  if (live + idle_bytes > limit) cool(live + idle_bytes - limit);
}

/* The address is NULL if the system has no more memory. */
static char* take_piece(size_t bytes, size_t live) {
  size_t first = find(bytes);
  if (first == n_pieces) {
    /* As much memory as is in use, so that there are few mappings: blocks of two mappings rarely join. */
    size_t size = round_up(larger(larger(bytes, live), kLeastMapping), kHugePage);
    char* at = map(size);
    if (!at) at = map(size = bytes);
    if (!at) return NULL;
    add_piece((Block){at, size}, 0);
    first = find(bytes);
  }
  char* at = first < n_pieces ? cut(first, bytes) : map(bytes);
  keep_to_peak(live);
  return at;
}

Block block_take(size_t bytes) {
  Block block = {NULL, round_up(bytes, kPage)};
  const size_t live = live_bytes += block.bytes;
  if (!atomic_flag_test_and_set(&busy)) {
    block.at = take_piece(block.bytes, live);
    atomic_flag_clear(&busy);
  } else {
    block.at = map(block.bytes);
  }
  if (!block.at) live_bytes -= block.bytes;
  return block;
}

void block_give(Block block) {
  live_bytes -= block.bytes;
  if (atomic_flag_test_and_set(&busy)) return unmap(block);
  add_piece(block, 1);
  atomic_flag_clear(&busy);
}

void blocks_release(void) {
  if (atomic_flag_test_and_set(&busy)) return;
  while (n_pieces > 0) unmap(pieces[--n_pieces].block);
  idle_bytes = 0;
  most_live = live_bytes, most_before = 0, taken = 0;
  atomic_flag_clear(&busy);
}
