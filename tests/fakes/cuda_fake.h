/*
 * What the parts of the fake libcuda share. Declarations of its calls are those of NVIDIA's CUDA Driver
 * API documentation.
 */
#ifndef GPUTAILOR_FAKE_CUDA_H
#define GPUTAILOR_FAKE_CUDA_H

#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context *CUcontext;
typedef struct module *CUmodule;
typedef struct module *CUfunction; /* a module has one kernel */
typedef struct event *CUevent;
typedef struct stream *CUstream;
typedef int CUjit_option;
typedef int CUdevice_attribute;
typedef struct {
    char bytes[16];
} CUuuid;

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    NOT_FOUND = 500,
    NOT_READY = 600
};

struct module {
    char entry[64];
    int parameters;
};
struct event {
    double at; /* when the queue comes to it; below 0: not recorded */
};

/* A number of the card's, or a count (cuda_state.c); an unknown name ends the process. */
double *setting(const char *name);

/* Whether the call may go on: OK, or the error it has to return. */
CUresult ready(const char *function, int needs_context);
#define READY(needs_context)                              \
    do {                                                  \
        CUresult result = ready(__func__, needs_context); \
        if (result != OK)                                 \
            return result;                                \
    } while (0)

/* Begins the library's life: reads its variables. cuInit's answer. */
CUresult initialize(void);
/* The context that calls are made in; NULL: none. */
extern struct context *current;

/* The compiler's log; empty: it accepts what it is given. */
const char *refusal(void);

/* Time: of the card's queue, and of a clock that may stand still. */
double now(void);
void sleep_until(double when);
/* Puts work of so many seconds at the queue's end; when it will be done. */
double enqueue(double seconds);

/* Whether all of a piece of device memory lies in a buffer that is allocated (cuda_memory.c). */
int allocated(CUdeviceptr address, size_t size);

#endif
