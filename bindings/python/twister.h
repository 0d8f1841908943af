/* Masks of dropout, drawn as PyTorch's generator of a CPU draws them: by the Mersenne twister MT19937 (Matsumoto and Nishimura, 1998).
 * Tested by tests/torch/test_twister.py. */
#ifndef TENON_PYTHON_TWISTER_H_
#define TENON_PYTHON_TWISTER_H_

#include <stdint.h>

enum { kTwisterWords = 624 };

/* The first bytes of torch.Generator.get_state(), which is an at::CPUGeneratorImplState. */
typedef struct {
  uint64_t seed;
  int32_t left; /* 1 + how many words follow before the next block */
  int32_t seeded;
  uint64_t next;                 /* index of the next word */
  uint64_t words[kTwisterWords]; /* a block; each has 32 bits */
} Twister;

/* Draws `count` numbers of 53 bits, two words each, the upper one first. Bit i % 8 of byte i / 8 says whether number i, divided by 2^53, is
 * below p; bits behind the last one are 0. p is in [0, 1], next at most kTwisterWords. */
void twister_bits(Twister* state, uint8_t* bits, int64_t count, double p);

#endif /* TENON_PYTHON_TWISTER_H_ */
