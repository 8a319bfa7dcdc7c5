/* The fake driver's utilisation, sample buffers and processes. */
#define _GNU_SOURCE
#include "nvml_fake.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PERIOD (1.0 / 6.0) /* seconds between two samples */
#define BUFFER 120u        /* samples a buffer holds: 20 s */

/* ---- sample times ---- */

/* The last moment at which a sample was taken; an earlier one where the buffer stopped. */
static double last_tick(nvmlDevice_t device, double now)
{
    double stop = state_number(INFINITY, "gpu.%d.samples.stop", device->gpu);
    double origin = state_origin();
    double limit = fmin(now, stop);
    /* a millionth of a period, so that rounding does not lose the sample that is due right now */
    return origin + floor((limit - origin) / PERIOD + 1e-6) * PERIOD;
}

static unsigned long long microseconds(double unix_seconds)
{
    return (unsigned long long)llround(unix_seconds * 1e6);
}

static unsigned percent(nvmlDevice_t device, const char *name, double from, double to)
{
    return (unsigned)(unsigned long long)llround(device_mean(device, name, from, to));
}

/* ---- utilisation ---- */

struct utilization {
    unsigned gpu, memory;
};

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, struct utilization *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetUtilizationRates", device);
    double now;
    if (result != OK)
        return result;
    if (without_utilization(device) || state_text("%s.util.gpu", device->prefix) == NULL)
        return end(NOT_SUPPORTED);
    now = state_now();
    out->gpu = (unsigned)raw_or(percent(device, "util.gpu", now - PERIOD, now),
                                "nvmlDeviceGetUtilizationRates", device->gpu);
    out->memory = (unsigned)raw_or(percent(device, "util.memory", now - PERIOD, now),
                                   "nvmlDeviceGetUtilizationRates", device->gpu);
    return end(OK);
}

static nvmlReturn_t codec(const char *function, nvmlDevice_t device, const char *name, unsigned *out,
                          unsigned *period)
{
    nvmlReturn_t result = begin_on(function, device);
    double now;
    if (result != OK)
        return result;
    if (without_utilization(device) || state_text("%s.%s", device->prefix, name) == NULL)
        return end(NOT_SUPPORTED);
    now = state_now();
    *out = (unsigned)raw_or(percent(device, name, now - PERIOD, now), function, device->gpu);
    *period = (unsigned)(PERIOD * 1e6);
    return end(OK);
}

EXPORT nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned *out, unsigned *period)
{
    return codec("nvmlDeviceGetEncoderUtilization", device, "util.encoder", out, period);
}

EXPORT nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned *out, unsigned *period)
{
    return codec("nvmlDeviceGetDecoderUtilization", device, "util.decoder", out, period);
}

struct sample {
    unsigned long long timestamp;
    nvmlValue_t value;
};

/* Number of samples newer than `since` (microseconds), oldest first; the buffer keeps the last ones. */
static unsigned copy_samples(nvmlDevice_t device, const char *name, unsigned long long since, double now,
                             unsigned room, struct sample *out)
{
    double last = last_tick(device, now);
    unsigned got = 0;
    for (int back = (int)BUFFER - 1; back >= 0; back--) {
        double at = last - back * PERIOD;
        if (at <= state_origin() || microseconds(at) <= since || at < now - BUFFER * PERIOD)
            continue;
        if (got == room)
            break;
        out[got].timestamp = microseconds(at);
        out[got].value.ullVal = 0;
        out[got].value.uiVal = (unsigned)raw_or(percent(device, name, at - PERIOD, at),
                                                "nvmlDeviceGetSamples", device->gpu);
        got++;
    }
    return got;
}

EXPORT nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, unsigned kind, unsigned long long since,
                                         unsigned *type, unsigned *count, struct sample *out)
{
    static const char *const names[5] = {NULL, "util.gpu", "util.memory", "util.encoder", "util.decoder"};
    nvmlReturn_t result = begin_on("nvmlDeviceGetSamples", device);
    if (result != OK)
        return result;
    if (kind > 4 || names[kind] == NULL || without_utilization(device)
        || state_text("%s.%s", device->prefix, names[kind]) == NULL)
        return end(NOT_SUPPORTED);
    *type = TYPE_UNSIGNED;
    if (out == NULL) {
        *count = BUFFER;
        return end_list(OK, count, "nvmlDeviceGetSamples", device->gpu);
    }
    *count = copy_samples(device, names[kind], since, state_now(), *count, out);
    return end_list(*count == 0 ? NOT_FOUND : OK, count, "nvmlDeviceGetSamples", device->gpu);
}

/* ---- processes ---- */

struct process {
    unsigned pid;
    unsigned long long memory;
    unsigned gi, ci;
};

/* Does process i of this GPU belong to the device, and is it of this kind (NULL: any)? */
static int belongs(nvmlDevice_t device, int i, const char *kind)
{
    const char *own = state_text("gpu.%d.process.%d.kind", device->gpu, i);
    if (own == NULL || (kind != NULL && strcmp(own, kind) != 0))
        return 0;
    return device->mig < 0
        || (state_integer(0, "gpu.%d.process.%d.gi", device->gpu, i)
                == state_integer(0, "%s.gi", device->prefix)
            && state_integer(0, "gpu.%d.process.%d.ci", device->gpu, i)
                == state_integer(0, "%s.ci", device->prefix));
}

static nvmlReturn_t list_processes(const char *function, nvmlDevice_t device, const char *kind,
                                   unsigned *count, struct process *out)
{
    nvmlReturn_t result = begin_on(function, device);
    unsigned room = *count;
    unsigned got = 0;
    if (result != OK)
        return result;
    for (int i = 0; i < (int)state_integer(0, "gpu.%d.processes", device->gpu); i++) {
        if (!belongs(device, i, kind))
            continue;
        if (out != NULL && got < room) {
            out[got].pid = (unsigned)state_integer(0, "gpu.%d.process.%d.pid", device->gpu, i);
            out[got].memory = raw_or(
                state_integer(~0ull, "gpu.%d.process.%d.memory", device->gpu, i), function, device->gpu);
            out[got].gi = (unsigned)state_integer(~0u, "gpu.%d.process.%d.gi", device->gpu, i);
            out[got].ci = (unsigned)state_integer(~0u, "gpu.%d.process.%d.ci", device->gpu, i);
        }
        got++;
    }
    *count = got;
    result = got == 0 || (out != NULL && got <= room) ? OK : INSUFFICIENT_SIZE;
    return end_list(result, count, function, device->gpu);
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                            struct process *out)
{
    return list_processes("nvmlDeviceGetComputeRunningProcesses_v3", device, "compute", count, out);
}

EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                             struct process *out)
{
    return list_processes("nvmlDeviceGetGraphicsRunningProcesses_v3", device, "graphics", count, out);
}

EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                               struct process *out)
{
    return list_processes("nvmlDeviceGetMPSComputeRunningProcesses_v3", device, "mps", count, out);
}

struct process_sample {
    unsigned pid;
    unsigned long long timestamp;
    unsigned sm, memory, encoder, decoder;
};

/* Fills a row with a process's means over a span: 1 where it used the GPU at all. */
static int used(nvmlDevice_t process, double from, double to, struct process_sample *row)
{
    row->sm = percent(process, "sm", from, to);
    row->memory = percent(process, "memory_utilization", from, to);
    row->encoder = percent(process, "encoder", from, to);
    row->decoder = percent(process, "decoder", from, to);
    return row->sm + row->memory + row->encoder + row->decoder > 0;
}

/*
 * One row for each process that used the GPU since `since`, stamped with the last sample in which it
 * did; where `since` is 0, each process that the buffer still knows, with that last sample alone.
 */
static int process_row(nvmlDevice_t process, unsigned long long since, double last,
                       struct process_sample *row)
{
    double from = fmax((double)since / 1e6, last - BUFFER * PERIOD);
    for (double at = last; at > from + 1e-6; at -= PERIOD) {
        if (!used(process, at - PERIOD, at, row))
            continue;
        row->timestamp = microseconds(at);
        return since == 0 || used(process, from, last, row);
    }
    return 0;
}

/* Rows as above, then as many of pid 0 as the state orders. `out` NULL counts. */
static unsigned process_samples(const char *function, nvmlDevice_t device, unsigned long long since,
                                unsigned room, struct process_sample *out)
{
    double last = last_tick(device, state_now());
    unsigned got = 0;
    if (microseconds(last) <= since || state_text("gpu.%d.process_samples", device->gpu) != NULL)
        return 0;
    for (int i = 0; i < (int)state_integer(0, "gpu.%d.processes", device->gpu); i++) {
        struct process_sample row = {0, 0, 0, 0, 0, 0};
        struct device process = *device;
        snprintf(process.prefix, sizeof process.prefix, "gpu.%d.process.%d", device->gpu, i);
        row.pid = (unsigned)state_integer(0, "%s.pid", process.prefix);
        if (!process_row(&process, since, last, &row))
            continue;
        row.sm = (unsigned)raw_or(row.sm, function, device->gpu);
        if (out != NULL && got < room)
            out[got] = row;
        got++;
    }
    for (int i = 0; i < (int)state_integer(0, "gpu.%d.process_samples_trailing", device->gpu); i++) {
        if (out != NULL && got < room)
            out[got] = (struct process_sample){0, microseconds(last), 0, 0, 0, 0};
        got++;
    }
    return got;
}

/* What "no samples" looks like differs between drivers: an error, or success with nothing. */
static nvmlReturn_t no_samples(nvmlDevice_t device)
{
    const char *how = state_text("gpu.%d.process_samples", device->gpu);
    return how != NULL && strcmp(how, "success") == 0 ? OK : NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, struct process_sample *out,
                                                    unsigned *count, unsigned long long since)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetProcessUtilization", device);
    unsigned room = *count;
    if (result != OK)
        return result;
    if (without_utilization(device))
        return end(NOT_SUPPORTED);
    *count = process_samples("nvmlDeviceGetProcessUtilization", device, since, out == NULL ? 0 : room,
                             out);
    result = *count == 0 ? no_samples(device) : out == NULL || room < *count ? INSUFFICIENT_SIZE : OK;
    return end_list(result, count, "nvmlDeviceGetProcessUtilization", device->gpu);
}

struct process_info {
    unsigned long long timestamp;
    unsigned pid, sm, memory, encoder, decoder, jpeg, ofa;
};
struct processes_info {
    unsigned version, count;
    unsigned long long since;
    struct process_info *rows;
};

EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, struct processes_info *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetProcessesUtilizationInfo", device);
    struct process_sample rows[64];
    unsigned got;
    if (result != OK)
        return result;
    if (out->version != (1u << 24 | sizeof *out))
        return end(VERSION_MISMATCH);
    if (without_utilization(device))
        return end(NOT_SUPPORTED);
    got = process_samples("nvmlDeviceGetProcessesUtilizationInfo", device, out->since, 64, rows);
    if (got == 0)
        result = no_samples(device);
    else if (out->rows == NULL || out->count < got)
        result = INSUFFICIENT_SIZE;
    for (unsigned i = 0; result == OK && i < got && i < 64; i++)
        out->rows[i] = (struct process_info){rows[i].timestamp, rows[i].pid, rows[i].sm, rows[i].memory,
                                             rows[i].encoder, rows[i].decoder, 0, 0};
    out->count = got;
    return end_list(result, &out->count, "nvmlDeviceGetProcessesUtilizationInfo", device->gpu);
}

EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size)
{
    nvmlReturn_t result = begin("nvmlSystemGetProcessName", -1);
    if (result != OK)
        return result;
    snprintf(out, size, "process-%u", pid);
    return end(OK);
}
