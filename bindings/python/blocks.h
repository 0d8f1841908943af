/* Large blocks of memory for outputs on the CPU. The C library gets such a block from the system at every call and gives it back after it:
 * the system clears its pages and maps them one by one, which takes longer than to write them. This module asks for huge pages and keeps
 * the memory of blocks that nobody uses. Any thread may call these functions. Tested by tests/torch/test_outputs.py. */
#ifndef TENON_PYTHON_BLOCKS_H_
#define TENON_PYTHON_BLOCKS_H_

#include <stddef.h>

typedef struct {
  char* at; /* the start of a page */
  size_t bytes;
} Block;

/* A block of at least these bytes; its address is NULL if the system has no more memory. */
Block block_take(size_t bytes);

void block_give(Block block);

/* Gives the free memory back to the system. From now on free memory takes no more memory, together with blocks in use, than blocks in use
 * take from now on. */
void blocks_release(void);

size_t blocks_live(void); /* bytes in use */
size_t blocks_idle(void); /* bytes of free memory that the system has not got back */

#endif /* TENON_PYTHON_BLOCKS_H_ */
