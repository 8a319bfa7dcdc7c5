/*
 * What the parts of the fake driver share: types of NVIDIA's public NVML interface (layouts as the
 * public Python binding declares them), device handles, and the entry of every call.
 */
#ifndef GPUTAILOR_FAKE_NVML_H
#define GPUTAILOR_FAKE_NVML_H

#include <stdint.h>

#include "nvml_state.h"

#define EXPORT __attribute__((visibility("default")))

typedef unsigned nvmlReturn_t;

enum {
    OK = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMED_OUT = 10,
    NO_MEMORY = 20,
    VERSION_MISMATCH = 25
};

/* A handle: a GPU (mig < 0) or one of its MIG instances; prefix is the stem of its state keys. */
struct device {
    int gpu;
    int mig;
    char prefix[40];
};
typedef struct device *nvmlDevice_t;

typedef union {
    double dVal;
    unsigned uiVal;
    unsigned long ulVal;
    unsigned long long ullVal;
    long long sllVal;
    int siVal;
    unsigned short usVal;
} nvmlValue_t;

enum { TYPE_DOUBLE = 0, TYPE_UNSIGNED = 1, TYPE_UNSIGNED_LONG_LONG = 3 };

/*
 * Begins a call: takes the lock, then does what the state file orders for this function and GPU:
 * hang, delay, error. Returns OK with the lock held, else an error without it. GPU -1: a system call.
 */
nvmlReturn_t begin(const char *function, int gpu);
nvmlReturn_t begin_on(const char *function, nvmlDevice_t device);
/* Ends a call that began well. */
nvmlReturn_t end(nvmlReturn_t result);

/* Notes the first call of a function, and that its answer is a number a test may replace (nvml_notes.c). */
void note_call(const char *function, int gpu);
void note_number(const char *function);

/* Counts a call and its ordered latency in seconds (nvml_count.c). Needs the lock. */
void count_call(double latency);

/* Handles; NULL where the index is too large. Need the lock. */
nvmlDevice_t gpu_handle(int gpu);
nvmlDevice_t mig_handle(int gpu, int mig);
int gpu_count(void);
int mig_mode(int gpu);

/* 1 for a MIG instance and for a GPU in MIG mode: neither has utilisation. */
int without_utilization(nvmlDevice_t device);

/* The integer a state line "raw.FUNCTION.GPU" puts in the place of a call's answer, else `answer`. */
unsigned long long raw_or(unsigned long long answer, const char *function, int gpu);
/* The count that a state line "count.FUNCTION.GPU" puts in the place of the true one (GPU -1: a system call). */
unsigned count_or(unsigned count, const char *function, int gpu);
/* Ends a list: a count that the state orders is told with INSUFFICIENT_SIZE, whatever room there is. */
nvmlReturn_t end_list(nvmlReturn_t result, unsigned *count, const char *function, int gpu);
double raw_number_or(double answer, const char *function, int gpu);

/* Mean of the timeline PREFIX.NAME of a device. */
double device_mean(nvmlDevice_t device, const char *name, double from, double to);
/* A counter: the number at PREFIX.NAME.start plus the integral of PREFIX.NAME since the origin. */
double device_counter(nvmlDevice_t device, const char *name);

/* Integers that stand in the state file as they are; a missing line means NOT_SUPPORTED. */
#define DEVICE_INTEGER(function, type, name)                                         \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, type *out)                     \
    {                                                                                \
        nvmlReturn_t result = begin_on(#function, device);                           \
        if (result != OK)                                                            \
            return result;                                                           \
        if (device->mig >= 0 || state_text("%s." name, device->prefix) == NULL)      \
            return end(NOT_SUPPORTED);                                               \
        *out = (type)raw_or(state_integer(0, "%s." name, device->prefix), #function, \
                            device->gpu);                                            \
        return end(OK);                                                              \
    }

#endif
