/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The compiler warns about what is not used: a build log needs warnings. */
static int unused_error_handler(int error, int unused) { return error; }

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "print";
  unsigned int limit = 3;
  for (int i = 0; i < limit; i++)
    fprintf(stderr, "attempt %d: error: %s\n", i, strerror(ECONNREFUSED));
  if (strcmp(what, "skip") == 0)
    return 77;
  if (strcmp(what, "fail") == 0) {
    printf("ERROR: no such device\n");
    return 1;
  }
  printf("Assertion `size > 0' failed, as it must; 0 failures\n");
  return 0;
}
