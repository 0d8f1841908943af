/* Links every function of the manifest from the installed library, each declared by the installed header.
 * tenon_names.h is made by run.cmake from abi.txt: one NAME(function) a line. */
#include <stdio.h>
#include <tenon/tenon.h>

typedef void (*any_function)(void);
#define NAME(f) (any_function) f,
static const any_function functions[] = {
#include "tenon_names.h"
};

int main(void) {
  size_t count = sizeof functions / sizeof *functions;
  for (size_t i = 0; i < count; ++i) {
    if (!functions[i]) return 1;
  }
  printf("%zu functions\n", count);
  return count ? 0 : 1;
}
