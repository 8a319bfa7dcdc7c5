/*
 * State of the fake libcuda: numbers that a test sets or asks for, by fake_cuda_set and fake_cuda_get,
 * or by variables GPUTAILOR_FAKE_CUDA_<name> for a process of its own; one function that fails
 * (GPUTAILOR_FAKE_CUDA_FAIL=function:code); and the time of a card with one queue.
 */
#define _GNU_SOURCE
#include "cuda_fake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct {
    const char *name;
    double value;
} settings[] = {
    {"devices", 1},
    {"major", 9},
    {"minor", 0},
    {"processors", 132},
    {"memory_bytes", 80.0 * (1 << 30)},
    {"seconds_per_turn", 1e-5},
    {"link_bytes_per_second", 25e9},
    {"clock_stopped", 0},
    {"now", 0},
    /* counted */
    {"contexts", 0},
    {"modules", 0},
    {"buffers", 0},
    {"host_buffers", 0},
    {"events", 0},
    {"launches", 0},
    {"bytes_copied", 0},
    {"busy_seconds", 0},
};

struct context *current;

static int initialized;
static double free_at; /* when the queue is empty */
static char failing[64];
static int failing_code;
static char log_of_compiler[512];

double *setting(const char *name)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strcmp(settings[i].name, name) == 0)
            return &settings[i].value;
    fprintf(stderr, "fake libcuda: no setting %s\n", name);
    abort();
}

EXPORT void fake_cuda_set(const char *name, double value) { *setting(name) = value; }
EXPORT double fake_cuda_get(const char *name) { return *setting(name); }

EXPORT void fake_cuda_fail(const char *function, int code)
{
    snprintf(failing, sizeof failing, "%s", function);
    failing_code = code;
}

EXPORT void fake_cuda_refuse_ptx(const char *log)
{
    snprintf(log_of_compiler, sizeof log_of_compiler, "%s", log);
}

const char *refusal(void) { return log_of_compiler; }

double now(void)
{
    struct timespec at;
    if (*setting("clock_stopped") != 0)
        return *setting("now");
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

void sleep_until(double when)
{
    if (*setting("clock_stopped") != 0) {
        if (when > *setting("now"))
            *setting("now") = when;
        return;
    }
    struct timespec at = {(time_t)when, (long)((when - (double)(time_t)when) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

double enqueue(double seconds)
{
    double begins = now();
    if (free_at > begins)
        begins = free_at;
    free_at = begins + seconds;
    *setting("busy_seconds") += seconds;
    return free_at;
}

CUresult ready(const char *function, int needs_context)
{
    if (strcmp(function, failing) == 0)
        return failing_code;
    if (!initialized)
        return NOT_INITIALIZED;
    return needs_context && current == NULL ? INVALID_CONTEXT : OK;
}

static void read_environment(void)
{
    char variable[96];
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        snprintf(variable, sizeof variable, "GPUTAILOR_FAKE_CUDA_%s", settings[i].name);
        if (getenv(variable) != NULL)
            settings[i].value = atof(getenv(variable));
    }
    const char *fail = getenv("GPUTAILOR_FAKE_CUDA_FAIL");
    const char *colon = fail == NULL ? NULL : strchr(fail, ':');
    if (colon != NULL && (size_t)(colon - fail) < sizeof failing) {
        memcpy(failing, fail, (size_t)(colon - fail));
        failing_code = atoi(colon + 1);
    }
}

CUresult initialize(void)
{
    if (!initialized)
        read_environment();
    if (strcmp(failing, "cuInit") == 0)
        return failing_code;
    if (*setting("devices") < 1)
        return NO_DEVICE;
    initialized = 1;
    return OK;
}
