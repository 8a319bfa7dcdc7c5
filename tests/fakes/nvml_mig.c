/* The fake driver's MIG instances. */
#define _GNU_SOURCE
#include "nvml_fake.h"

#include <stddef.h>
#include <string.h>

/* ---- MIG ---- */

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetMigMode", device);
    if (result != OK)
        return result;
    if (device->mig >= 0 || state_text("%s.mig.mode", device->prefix) == NULL)
        return end(NOT_SUPPORTED);
    *current = (unsigned)mig_mode(device->gpu);
    *pending = (unsigned)state_integer(*current, "%s.mig.mode_pending", device->prefix);
    return end(OK);
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index,
                                                        nvmlDevice_t *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetMigDeviceHandleByIndex", device);
    if (result != OK)
        return result;
    if (device->mig >= 0 || mig_mode(device->gpu) != 1)
        return end(NOT_SUPPORTED);
    *out = mig_handle(device->gpu, (int)index);
    return end(*out == NULL ? NOT_FOUND : OK);
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceIsMigDeviceHandle", device);
    if (result != OK)
        return result;
    *out = device->mig >= 0;
    return end(OK);
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", device);
    if (result != OK)
        return result;
    *out = device->mig < 0 ? NULL : gpu_handle(device->gpu);
    return end(*out == NULL ? INVALID_ARGUMENT : OK);
}

#define MIG_ID(function, name)                                                \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, unsigned *out)          \
    {                                                                         \
        nvmlReturn_t result = begin_on(#function, device);                    \
        if (result != OK)                                                     \
            return result;                                                    \
        if (device->mig < 0)                                                  \
            return end(NOT_SUPPORTED);                                        \
        *out = (unsigned)raw_or(state_integer(0, "%s." name, device->prefix), \
                                #function, device->gpu);                      \
        return end(OK);                                                       \
    }
MIG_ID(nvmlDeviceGetGpuInstanceId, "gi")
MIG_ID(nvmlDeviceGetComputeInstanceId, "ci")

struct attributes {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mib;
};

EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, struct attributes *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetAttributes_v2", device);
    if (result != OK)
        return result;
    if (device->mig < 0)
        return end(NOT_SUPPORTED);
    memset(out, 0, sizeof *out);
    out->multiprocessors = (unsigned)state_integer(0, "%s.multiprocessors", device->prefix);
    out->copy_engines = 1;
    out->gpu_slices = (unsigned)raw_or(state_integer(0, "%s.gpu_slices", device->prefix),
                                       "nvmlDeviceGetAttributes_v2", device->gpu);
    out->compute_slices = (unsigned)state_integer(0, "%s.compute_slices", device->prefix);
    out->memory_mib = state_integer(0, "%s.memory.total", device->prefix) >> 20;
    return end(OK);
}
