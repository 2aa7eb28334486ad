/* A C program; of its process alone it is known how long it takes. The second variant is the same, better compiled:
 *   cc -O0 sum.c -o slow && cc -O3 sum.c -o fast && speedproof prove ./slow ./fast --claim '>= 1.2'
 */
#include <stdio.h>

int main(void) {
  double sum = 0;
  for (long n = 1; n < 100000000; n++) sum += 1.0 / (double)n;
  printf("sum %f\n", sum);
  return 0;
}
