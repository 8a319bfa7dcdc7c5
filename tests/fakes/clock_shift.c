/*
 * Preloaded into a process, it sets that process's clocks as an administrator, an NTP server or a
 * suspension sets the machine's: the file that TEST_CLOCK_SHIFT names holds two doubles, seconds
 * added to the wall clock and to the clock since boot. The monotonic clock goes on as it is. The file
 * may change at any time.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const double nothing[2];

static const double *shifts(void)
{
    static const double *mapped;
    const char *path = getenv("TEST_CLOCK_SHIFT");
    if (mapped == NULL) {
        int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        void *found = file < 0 ? MAP_FAILED : mmap(NULL, sizeof nothing, PROT_READ, MAP_SHARED, file, 0);
        mapped = found == MAP_FAILED ? nothing : found;
        if (file >= 0)
            close(file);
    }
    return mapped;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    long result = syscall(SYS_clock_gettime, clock, out);
    double shift = 0.0;
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        shift = shifts()[0];
    else if (result == 0 && clock == CLOCK_BOOTTIME)
        shift = shifts()[1];
    out->tv_sec += (time_t)floor(shift);
    return (int)result;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = (suseconds_t)(now.tv_nsec / 1000);
    return 0;
}
