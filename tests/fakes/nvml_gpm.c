/* The fake driver's GPM (activity counters of Hopper and later) and events (Xid errors). */
#define _GNU_SOURCE
#include "nvml_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
    free(sample);
    return OK;
}

EXPORT nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, struct gpm_sample *sample)
{
    nvmlReturn_t result = begin_on("nvmlGpmSampleGet", device);
    if (result != OK)
        return result;
    if (device->mig >= 0 || state_integer(0, "gpu.%d.gpm", device->gpu) == 0)
        return end(NOT_SUPPORTED);
    sample->at = state_now();
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
        sample->at = state_now();
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
            metric->value = timeline_mean(key, out->first->at, out->second->at);
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
    free(set);
    return OK;
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

EXPORT nvmlReturn_t nvmlEventSetWait_v2(struct event_set *set, struct event *out, unsigned milliseconds)
{
    struct timespec step = {0, 5000000};
    for (unsigned waited = 0;; waited += 5) {
        nvmlReturn_t result = begin("nvmlEventSetWait_v2", -1);
        if (result != OK)
            return result;
        if (next_event(set, out))
            return end(OK);
        end(OK);
        if (waited >= milliseconds)
            return TIMED_OUT;
        nanosleep(&step, NULL);
    }
}
