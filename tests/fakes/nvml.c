/*
 * A fake NVIDIA driver library (libnvidia-ml.so.1) for tests without a GPU: calls, handles and
 * identity. Our own C, written from the public NVML interface; it answers from a state file
 * (nvml_state.h) that may change while it runs. It models what a reader of the driver can notice, and
 * no more: a call that clients of this project never make does not exist (FUNCTION_NOT_FOUND).
 */
#define _GNU_SOURCE
#include "nvml_fake.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define MAX_GPUS 64
#define MAX_MIG 16

static struct device handles[MAX_GPUS][1 + MAX_MIG];
static int users; /* nvmlInit calls that no nvmlShutdown has answered */

/* ---- entry of every call ---- */

static void pause_seconds(double seconds)
{
    struct timespec span = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&span, NULL);
}

/* A behaviour is looked up for (function, GPU), (function, all), (all, GPU), (all, all). */
static double behaviour(const char *function, int gpu, const char *what)
{
    const char *functions[2] = {function, "*"};
    for (int i = 0; i < 2; i++) {
        double value = state_number(NAN, "call.%s.%d.%s", functions[i], gpu, what);
        if (isnan(value))
            value = state_number(NAN, "call.%s.*.%s", functions[i], what);
        if (!isnan(value))
            return value;
    }
    return 0.0;
}

/*
 * Hangs as long as the state says so. With hang 2 the call holds the driver's one lock meanwhile:
 * all others wait too, on whatever GPU. 0: there is no state any more.
 */
static int hang(const char *function, int gpu)
{
    static int blockers;
    int blocks = 0;
    int there = 1;
    double order;
    while (there && ((order = behaviour(function, gpu, "hang")) != 0.0 || blockers > blocks)) {
        if (order == 2.0 && !blocks) {
            blocks = 1;
            blockers++;
        }
        state_unlock();
        pause_seconds(0.01);
        there = state_lock();
    }
    blockers -= blocks;
    return there;
}

nvmlReturn_t begin(const char *function, int gpu)
{
    double latency;
    int error;
    if (!state_lock() || !hang(function, gpu)) {
        state_unlock();
        return DRIVER_NOT_LOADED;
    }
    note_call(function, gpu);
    latency = behaviour(function, gpu, "latency");
    error = (int)behaviour(function, gpu, "error");
    count_call(latency);
    if (latency > 0.0) {
        state_unlock();
        pause_seconds(latency);
        state_lock();
    }
    if (error == OK && users == 0 && strncmp(function, "nvmlInit", 8) != 0)
        error = UNINITIALIZED;
    if (error != OK)
        state_unlock();
    return (nvmlReturn_t)error;
}

nvmlReturn_t begin_on(const char *function, nvmlDevice_t device)
{
    struct device *first = &handles[0][0];
    if (device < first || device > &handles[MAX_GPUS - 1][MAX_MIG])
        return INVALID_ARGUMENT;
    return begin(function, device->gpu);
}

nvmlReturn_t end(nvmlReturn_t result)
{
    state_unlock();
    return result;
}

/* ---- handles ---- */

int gpu_count(void)
{
    return (int)state_integer(0, "driver.gpus");
}

static nvmlDevice_t handle(int gpu, int mig)
{
    struct device *found = &handles[gpu][mig + 1];
    found->gpu = gpu;
    found->mig = mig;
    if (mig < 0)
        snprintf(found->prefix, sizeof found->prefix, "gpu.%d", gpu);
    else
        snprintf(found->prefix, sizeof found->prefix, "gpu.%d.mig.%d", gpu, mig);
    return found;
}

nvmlDevice_t gpu_handle(int gpu)
{
    return gpu < 0 || gpu >= gpu_count() || gpu >= MAX_GPUS ? NULL : handle(gpu, -1);
}

nvmlDevice_t mig_handle(int gpu, int mig)
{
    if (mig < 0 || mig >= MAX_MIG || state_text("gpu.%d.mig.%d.uuid", gpu, mig) == NULL)
        return NULL;
    return handle(gpu, mig);
}

int mig_mode(int gpu)
{
    return (int)state_integer(0, "gpu.%d.mig.mode", gpu);
}

int without_utilization(nvmlDevice_t device)
{
    return device->mig >= 0 || mig_mode(device->gpu) == 1;
}

unsigned long long raw_or(unsigned long long answer, const char *function, int gpu)
{
    note_number(function);
    return state_integer(answer, "raw.%s.%d", function, gpu);
}

unsigned count_or(unsigned count, const char *function, int gpu)
{
    return (unsigned)state_integer(count, "count.%s.%d", function, gpu);
}

nvmlReturn_t end_list(nvmlReturn_t result, unsigned *count, const char *function, int gpu)
{
    unsigned is = *count;
    *count = count_or(is, function, gpu);
    return end(*count == is ? result : INSUFFICIENT_SIZE);
}

double raw_number_or(double answer, const char *function, int gpu)
{
    note_number(function);
    return state_number(answer, "raw.%s.%d", function, gpu);
}

double device_mean(nvmlDevice_t device, const char *name, double from, double to)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", device->prefix, name);
    return timeline_mean(key, from, to);
}

double device_counter(nvmlDevice_t device, const char *name)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", device->prefix, name);
    return state_number(0.0, "%s.start", key) + timeline_integral(key, state_origin(), state_counter_now());
}

/* ---- library and system ---- */

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    nvmlReturn_t result = begin("nvmlInitWithFlags", -1);
    (void)flags;
    if (result != OK)
        return result;
    users++;
    return end(OK);
}

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t result = begin("nvmlShutdown", -1);
    if (result != OK)
        return result;
    users--;
    return end(OK);
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    static __thread char words[40];
    snprintf(words, sizeof words, "fake driver error %u", result);
    return words;
}

static nvmlReturn_t copy_text(char *out, unsigned size, const char *value)
{
    if (value == NULL || *value == '\0')
        return end(NOT_SUPPORTED);
    if (strlen(value) + 1 > size)
        return end(INSUFFICIENT_SIZE);
    strcpy(out, value);
    return end(OK);
}

#define SYSTEM_TEXT(function, key)                                        \
    EXPORT nvmlReturn_t function(char *out, unsigned size)                \
    {                                                                     \
        nvmlReturn_t result = begin(#function, -1);                       \
        return result != OK ? result : copy_text(out, size, state_text(key)); \
    }
SYSTEM_TEXT(nvmlSystemGetDriverVersion, "driver.version")
SYSTEM_TEXT(nvmlSystemGetNVMLVersion, "driver.nvml_version")

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    nvmlReturn_t result = begin("nvmlSystemGetCudaDriverVersion_v2", -1);
    if (result != OK)
        return result;
    *out = (int)state_integer(0, "driver.cuda_version");
    return end(OK);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out)
{
    return nvmlSystemGetCudaDriverVersion_v2(out);
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out)
{
    nvmlReturn_t result = begin("nvmlDeviceGetCount_v2", -1);
    if (result != OK)
        return result;
    *out = count_or((unsigned)gpu_count(), "nvmlDeviceGetCount_v2", -1);
    return end(OK);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out)
{
    nvmlReturn_t result = begin("nvmlDeviceGetHandleByIndex_v2", (int)index);
    if (result != OK)
        return result;
    *out = gpu_handle((int)index);
    return end(*out == NULL ? INVALID_ARGUMENT : OK);
}

static nvmlReturn_t handle_by(const char *function, const char *name, const char *wanted,
                              nvmlDevice_t *out)
{
    nvmlReturn_t result = begin(function, -1);
    int gpu = -1;
    if (result != OK)
        return result;
    *out = NULL;
    for (int i = 0; i < gpu_count() && *out == NULL; i++) {
        const char *own = state_text("gpu.%d.%s", i, name);
        if (own != NULL && strcasecmp(own, wanted) == 0)
            *out = gpu_handle(i);
        for (int m = 0; m < MAX_MIG && *out == NULL && strcmp(name, "uuid") == 0; m++) {
            const char *instance = state_text("gpu.%d.mig.%d.uuid", i, m);
            if (instance != NULL && strcmp(instance, wanted) == 0)
                *out = mig_handle(i, m);
        }
        gpu = i;
    }
    end(OK);
    if (*out == NULL)
        return NOT_FOUND;
    result = begin(function, gpu); /* only now is it known which GPU's behaviour counts */
    return result != OK ? result : end(OK);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out)
{
    return handle_by("nvmlDeviceGetHandleByUUID", "uuid", uuid, out);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *out)
{
    return handle_by("nvmlDeviceGetHandleByPciBusId_v2", "pci_bus_id", bus_id, out);
}

/* ---- identity ---- */

#define DEVICE_TEXT(function, name)                                                            \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, char *out, unsigned size)                \
    {                                                                                          \
        nvmlReturn_t result = begin_on(#function, device);                                     \
        return result != OK ? result                                                           \
                            : copy_text(out, size, state_text("%s." name, device->prefix));    \
    }
DEVICE_TEXT(nvmlDeviceGetName, "name")
DEVICE_TEXT(nvmlDeviceGetUUID, "uuid")
DEVICE_TEXT(nvmlDeviceGetSerial, "serial")
DEVICE_TEXT(nvmlDeviceGetVbiosVersion, "vbios")

DEVICE_INTEGER(nvmlDeviceGetMinorNumber, unsigned, "minor")
DEVICE_INTEGER(nvmlDeviceGetArchitecture, unsigned, "architecture")
DEVICE_INTEGER(nvmlDeviceGetBrand, unsigned, "brand")
DEVICE_INTEGER(nvmlDeviceGetPersistenceMode, unsigned, "persistence")
DEVICE_INTEGER(nvmlDeviceGetComputeMode, unsigned, "compute_mode")
DEVICE_INTEGER(nvmlDeviceGetDisplayMode, unsigned, "display")
DEVICE_INTEGER(nvmlDeviceGetDisplayActive, unsigned, "display")
DEVICE_INTEGER(nvmlDeviceGetPerformanceState, unsigned, "performance_state")
DEVICE_INTEGER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "pcie.generation")
DEVICE_INTEGER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "pcie.generation_max")
DEVICE_INTEGER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "pcie.width")
DEVICE_INTEGER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "pcie.width_max")
DEVICE_INTEGER(nvmlDeviceGetMaxMigDeviceCount, unsigned, "mig.max")

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetIndex", device);
    if (result != OK)
        return result;
    *out = (unsigned)(device->mig < 0 ? device->gpu : device->mig);
    return end(OK);
}

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetCudaComputeCapability", device);
    const char *value;
    if (result != OK)
        return result;
    value = state_text("gpu.%d.compute_capability", device->gpu);
    if (value == NULL || sscanf(value, "%d.%d", major, minor) != 2)
        return end(NOT_SUPPORTED);
    *major = (int)raw_or((unsigned)*major, "nvmlDeviceGetCudaComputeCapability", device->gpu);
    *minor = (int)raw_or((unsigned)*minor, "nvmlDeviceGetCudaComputeCapability", device->gpu);
    return end(OK);
}

/* Driver models are a matter of Windows. */
EXPORT nvmlReturn_t nvmlDeviceGetDriverModel_v2(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetDriverModel_v2", device);
    (void)current;
    (void)pending;
    return result != OK ? result : end(NOT_SUPPORTED);
}

EXPORT nvmlReturn_t nvmlDeviceGetDriverModel(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    return nvmlDeviceGetDriverModel_v2(device, current, pending);
}

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct pci_info *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetPciInfo_v3", device);
    const char *bus_id;
    if (result != OK)
        return result;
    bus_id = state_text("gpu.%d.pci_bus_id", device->gpu);
    if (bus_id == NULL || device->mig >= 0)
        return end(NOT_SUPPORTED);
    memset(out, 0, sizeof *out);
    sscanf(bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    out->device_id = (unsigned)state_integer(0, "gpu.%d.pci_device_id", device->gpu);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", bus_id);
    snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "%04x:%02x:%02x.0",
             out->domain & 0xffffu, out->bus & 0xffu, out->device & 0xffu);
    return end(OK);
}
