// A library to preload: the monotonic clock runs slow by FACTOR.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    static double origin_ns;
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, now);
    if (clock != CLOCK_MONOTONIC) return status;
    double now_ns = 1e9 * now->tv_sec + now->tv_nsec;
    if (!origin_ns) origin_ns = now_ns;
    double slow_ns = origin_ns + (now_ns - origin_ns) / FACTOR;
    now->tv_sec = slow_ns / 1e9;
    now->tv_nsec = slow_ns - 1e9 * now->tv_sec;
    return status;
}
