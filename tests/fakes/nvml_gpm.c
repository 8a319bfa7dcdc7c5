/* The fake driver's GPM (activity counters of Hopper and later) and events (Xid errors). */
#define _GNU_SOURCE
#include "nvml_fake.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

/* ---- GPM ---- */

struct gpm_sample {
    double at;
    char prefix[40];
};
struct gpm_metric {
    unsigned id, result;
    double value;
    const char *short_name, *long_name, *unit;
};
struct gpm_metrics {
    unsigned version, count;
    struct gpm_sample *first, *second;
    /* As long as the caller's CUDA version made it: only `count` entries may be touched. */
    struct gpm_metric metrics[];
};
struct gpm_support {
    unsigned version, supported;
};

EXPORT nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, struct gpm_support *out)
{
    nvmlReturn_t result = begin_on("nvmlGpmQueryDeviceSupport", device);
    if (result != OK)
        return result;
    out->supported = (unsigned)state_integer(0, "gpu.%d.gpm", device->gpu);
    return end(OK);
}

EXPORT nvmlReturn_t nvmlGpmSampleAlloc(struct gpm_sample **out)
{
    nvmlReturn_t result = begin("nvmlGpmSampleAlloc", -1);
    if (result != OK)
        return result;
    *out = calloc(1, sizeof **out);
    return end(*out == NULL ? NO_MEMORY : OK);
}

EXPORT nvmlReturn_t nvmlGpmSampleFree(struct gpm_sample *sample)
{
    int gpu = -1;
    nvmlReturn_t result;
    sscanf(sample->prefix, "gpu.%d", &gpu);
    result = begin("nvmlGpmSampleFree", gpu);
    if (result != OK)
        return result;
    free(sample);
    return end(OK);
}

EXPORT nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, struct gpm_sample *sample)
{
    nvmlReturn_t result = begin_on("nvmlGpmSampleGet", device);
    if (result != OK)
        return result;
    if (device->mig >= 0 || state_integer(0, "gpu.%d.gpm", device->gpu) == 0)
        return end(NOT_SUPPORTED);
    sample->at = state_counter_now();
    memcpy(sample->prefix, device->prefix, sizeof sample->prefix);
    return end(OK);
}

EXPORT nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned gi, struct gpm_sample *sample)
{
    nvmlReturn_t result = begin_on("nvmlGpmMigSampleGet", device);
    if (result != OK)
        return result;
    if (device->mig >= 0 || mig_mode(device->gpu) != 1
        || state_integer(0, "gpu.%d.gpm", device->gpu) == 0)
        return end(NOT_SUPPORTED);
    for (int m = 0; mig_handle(device->gpu, m) != NULL; m++) {
        nvmlDevice_t instance = mig_handle(device->gpu, m);
        if (state_integer(~0u, "%s.gi", instance->prefix) != gi)
            continue;
        sample->at = state_counter_now();
        memcpy(sample->prefix, instance->prefix, sizeof sample->prefix);
        return end(OK);
    }
    return end(NOT_FOUND);
}

EXPORT nvmlReturn_t nvmlGpmMetricsGet(struct gpm_metrics *out)
{
    int gpu = -1;
    nvmlReturn_t result;
    if (out->first == NULL || out->second == NULL)
        return INVALID_ARGUMENT;
    sscanf(out->second->prefix, "gpu.%d", &gpu);
    result = begin("nvmlGpmMetricsGet", gpu);
    if (result != OK)
        return result;
    if (out->version != 1)
        return end(VERSION_MISMATCH);
    if (strcmp(out->first->prefix, out->second->prefix) != 0 || out->second->at <= out->first->at)
        return end(INVALID_ARGUMENT);
    for (unsigned i = 0; i < out->count; i++) {
        struct gpm_metric *metric = &out->metrics[i];
        char key[96];
        snprintf(key, sizeof key, "%s.gpm.%u", out->second->prefix, metric->id);
        metric->result = state_text("%s", key) == NULL ? NOT_SUPPORTED : OK;
        if (metric->result == OK)
            metric->value = raw_number_or(timeline_mean(key, out->first->at, out->second->at),
                                          "nvmlGpmMetricsGet", gpu);
    }
    return end(OK);
}

/* ---- events ---- */

#define MAX_WATCHED 64
struct event_set {
    unsigned long long mask[MAX_WATCHED];
    unsigned long long seen[MAX_WATCHED]; /* events of the GPU already told, or older than the set */
};
struct event {
    nvmlDevice_t device;
    unsigned long long type, data;
    unsigned gi, ci;
};

EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetSupportedEventTypes", device);
    if (result != OK)
        return result;
    *out = state_integer(0x1f, "gpu.%d.event_types", device->gpu);
    return end(OK);
}

EXPORT nvmlReturn_t nvmlEventSetCreate(struct event_set **out)
{
    nvmlReturn_t result = begin("nvmlEventSetCreate", -1);
    if (result != OK)
        return result;
    *out = calloc(1, sizeof **out);
    return end(*out == NULL ? NO_MEMORY : OK);
}

EXPORT nvmlReturn_t nvmlEventSetFree(struct event_set *set)
{
    nvmlReturn_t result = begin("nvmlEventSetFree", -1);
    if (result != OK)
        return result;
    free(set);
    return end(OK);
}

EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long mask,
                                             struct event_set *set)
{
    nvmlReturn_t result = begin_on("nvmlDeviceRegisterEvents", device);
    if (result != OK)
        return result;
    if (device->mig >= 0 || (mask & ~state_integer(0x1f, "gpu.%d.event_types", device->gpu)) != 0)
        return end(NOT_SUPPORTED);
    set->mask[device->gpu] |= mask;
    set->seen[device->gpu] = state_integer(0, "gpu.%d.events", device->gpu);
    return end(OK);
}

/* The next untold event of any watched GPU, under the lock: 1 where there is one. */
static int next_event(struct event_set *set, struct event *out)
{
    for (int gpu = 0; gpu < gpu_count() && gpu < MAX_WATCHED; gpu++) {
        while (set->seen[gpu] < state_integer(0, "gpu.%d.events", gpu)) {
            unsigned long long i = set->seen[gpu]++;
            out->type = state_integer(8, "gpu.%d.event.%llu.type", gpu, i);
            if ((out->type & set->mask[gpu]) == 0)
                continue;
            out->device = gpu_handle(gpu);
            out->data = state_integer(0, "gpu.%d.event.%llu.data", gpu, i);
            out->gi = (unsigned)state_integer(~0u, "gpu.%d.event.%llu.gi", gpu, i);
            out->ci = (unsigned)state_integer(~0u, "gpu.%d.event.%llu.ci", gpu, i);
            return 1;
        }
    }
    return 0;
}

/* Watches the folder of the state file, which is replaced when it changes; below 0: it cannot. */
static int watch_state(void)
{
    const char *path = getenv("GPUTAILOR_FAKE_NVML_STATE");
    const char *name = path == NULL ? NULL : strrchr(path, '/');
    char folder[4096];
    int watch = name == NULL ? -1 : inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch >= 0) {
        snprintf(folder, sizeof folder, "%.*s", (int)(name - path) + 1, path);
        inotify_add_watch(watch, folder, IN_MOVED_TO | IN_CREATE | IN_DELETE);
    }
    return watch;
}

/* Sleeps until the state changes, as the real call does until its interrupt: an idle waiter is free. */
static void await_change(int watch, long milliseconds)
{
    struct pollfd one = {watch, POLLIN, 0};
    char changes[4096];
    poll(&one, 1, (int)(watch < 0 && milliseconds > 5 ? 5 : milliseconds));
    if (watch >= 0 && read(watch, changes, sizeof changes) < 0)
        return; /* the time is over */
}

static long long now_milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static nvmlReturn_t wait_event(struct event_set *set, struct event *out, unsigned milliseconds, int watch)
{
    long long until = now_milliseconds() + milliseconds;
    for (;;) {
        nvmlReturn_t result = begin("nvmlEventSetWait_v2", -1);
        long long left;
        if (result != OK)
            return result;
        if (next_event(set, out))
            return end(OK);
        end(OK);
        left = until - now_milliseconds();
        if (left <= 0)
            return TIMED_OUT;
        await_change(watch, (long)left);
    }
}

EXPORT nvmlReturn_t nvmlEventSetWait_v2(struct event_set *set, struct event *out, unsigned milliseconds)
{
    int watch = milliseconds == 0 ? -1 : watch_state();
    nvmlReturn_t result = wait_event(set, out, milliseconds, watch);
    if (watch >= 0)
        close(watch);
    return result;
}
