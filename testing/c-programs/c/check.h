// Checks that are printed and counted.

#ifndef CHECK_H_
#define CHECK_H_

#include <stdio.h>

static int checks_failed = 0;

static inline void check(int holds, const char* what, const char* file, int line) {
  if (!holds) {
    ++checks_failed;
    printf("%s:%d: does not hold: %s\n", file, line, what);
  }
}

#define CHECK(condition) check((condition) != 0, #condition, __FILE__, __LINE__)

// Prints what is checked next.
static inline void section(const char* what) { printf("- %s\n", what); }

// What main returns.
static inline int result(void) {
  printf("%d checks do not hold\n", checks_failed);
  return checks_failed == 0 ? 0 : 1;
}

#endif  // CHECK_H_
