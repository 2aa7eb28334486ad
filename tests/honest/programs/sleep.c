// Sleeps in each epoch, and prints its time.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

int main(int count, char **words) {
    double epoch_s = count > 1 ? atof(words[1]) : 0.02;
    int epochs = count > 2 ? atoi(words[2]) : 5;
    for (int epoch = 0; epoch < epochs; epoch++) {
        double began_s = now_s();
        struct timespec pause = {0, (long)(1e9 * epoch_s)};
        nanosleep(&pause, NULL);
        printf("epoch %d took %.5f s\n", epoch, now_s() - began_s);
        fflush(stdout);
    }
    return 0;
}
