/* The fake driver's memory, power, temperature, clocks, fans and ECC. */
#define _GNU_SOURCE
#include "nvml_fake.h"

#include <math.h>
#include <stddef.h>

DEVICE_INTEGER(nvmlDeviceGetPowerManagementLimit, unsigned, "power.limit_milliwatts")
DEVICE_INTEGER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power.limit_milliwatts")
DEVICE_INTEGER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, "power.default_milliwatts")
DEVICE_INTEGER(nvmlDeviceGetFanSpeed, unsigned, "fan")
DEVICE_INTEGER(nvmlDeviceGetNumFans, unsigned, "fans")
DEVICE_INTEGER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, "throttle")
DEVICE_INTEGER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "throttle")
DEVICE_INTEGER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, "throttle_supported")
DEVICE_INTEGER(nvmlDeviceGetRetiredPagesPendingStatus, unsigned, "retired.pending")

/* ---- memory ---- */

struct memory {
    unsigned long long total, free, used;
};
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

/* Fills the newer layout under the lock; NOT_SUPPORTED where the state names no memory. */
static nvmlReturn_t read_memory(const char *function, nvmlDevice_t device, struct memory_v2 *out)
{
    double now = state_now();
    if (state_text("%s.memory.total", device->prefix) == NULL)
        return NOT_SUPPORTED;
    out->total = raw_or(state_integer(0, "%s.memory.total", device->prefix), function, device->gpu);
    out->reserved = raw_or(state_integer(0, "%s.memory.reserved", device->prefix), function, device->gpu);
    out->used = raw_or((unsigned long long)llround(device_mean(device, "memory.used", now, now)),
                       function, device->gpu);
    out->free = out->total - out->reserved - out->used;
    return OK;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct memory_v2 *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetMemoryInfo_v2", device);
    if (result != OK)
        return result;
    if (out->version != (2u << 24 | sizeof *out))
        return end(VERSION_MISMATCH);
    return end(read_memory("nvmlDeviceGetMemoryInfo_v2", device, out));
}

/* The first version counts what the driver reserves as used. */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct memory *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetMemoryInfo", device);
    struct memory_v2 newer;
    if (result != OK)
        return result;
    result = read_memory("nvmlDeviceGetMemoryInfo", device, &newer);
    if (result == OK) {
        out->total = newer.total;
        out->free = newer.free;
        out->used = newer.used + newer.reserved;
    }
    return end(result);
}

EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, struct memory *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetBAR1MemoryInfo", device);
    if (result != OK)
        return result;
    if (device->mig >= 0)
        return end(NOT_SUPPORTED);
    out->total = 256ull << 20;
    out->used = 1ull << 20;
    out->free = out->total - out->used;
    return end(OK);
}

/* ---- power, temperature, clocks, fans ---- */

EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetPowerUsage", device);
    double now = result == OK ? state_now() : 0.0;
    if (result != OK)
        return result;
    if (device->mig >= 0 || state_text("%s.power.watts", device->prefix) == NULL)
        return end(NOT_SUPPORTED);
    *out = (unsigned)raw_or((unsigned long long)llround(
                                device_mean(device, "power.watts", now, now) * 1000.0),
                            "nvmlDeviceGetPowerUsage", device->gpu);
    return end(OK);
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *least,
                                                                 unsigned *most)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetPowerManagementLimitConstraints", device);
    if (result != OK)
        return result;
    if (state_text("%s.power.max_milliwatts", device->prefix) == NULL)
        return end(NOT_SUPPORTED);
    *least = (unsigned)state_integer(0, "%s.power.min_milliwatts", device->prefix);
    *most = (unsigned)raw_or(state_integer(0, "%s.power.max_milliwatts", device->prefix),
                             "nvmlDeviceGetPowerManagementLimitConstraints", device->gpu);
    return end(OK);
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetTotalEnergyConsumption", device);
    if (result != OK)
        return result;
    if (device->mig >= 0 || state_integer(0, "%s.energy", device->prefix) == 0)
        return end(NOT_SUPPORTED);
    *out = raw_or((unsigned long long)(device_counter(device, "power.watts") * 1000.0),
                  "nvmlDeviceGetTotalEnergyConsumption", device->gpu);
    return end(OK);
}

static nvmlReturn_t read_temperature(nvmlDevice_t device, const char *function, unsigned sensor,
                                     int *out)
{
    double now = state_now();
    if (device->mig >= 0 || sensor != 0
        || state_text("%s.temperature.gpu", device->prefix) == NULL)
        return NOT_SUPPORTED;
    *out = (int)raw_or(
        (unsigned long long)llround(device_mean(device, "temperature.gpu", now, now)), function,
        device->gpu);
    return OK;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetTemperature", device);
    int value = 0;
    if (result != OK)
        return result;
    result = read_temperature(device, "nvmlDeviceGetTemperature", sensor, &value);
    *out = (unsigned)value;
    return end(result);
}

struct temperature {
    unsigned version, sensor;
    int value;
};

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, struct temperature *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetTemperatureV", device);
    if (result != OK)
        return result;
    if (out->version != (1u << 24 | sizeof *out))
        return end(VERSION_MISMATCH);
    return end(read_temperature(device, "nvmlDeviceGetTemperatureV", out->sensor, &out->value));
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned which, unsigned *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetTemperatureThreshold", device);
    if (result != OK)
        return result;
    if (state_text("%s.temperature.threshold.%u", device->prefix, which) == NULL)
        return end(NOT_SUPPORTED);
    *out = (unsigned)raw_or(state_integer(0, "%s.temperature.threshold.%u", device->prefix, which),
                            "nvmlDeviceGetTemperatureThreshold", device->gpu);
    return end(OK);
}

static nvmlReturn_t read_clock(const char *function, nvmlDevice_t device, const char *set, unsigned which,
                               unsigned *out)
{
    static const char *const names[4] = {"graphics", "sm", "memory", "video"};
    nvmlReturn_t result = begin_on(function, device);
    if (result != OK)
        return result;
    if (which > 3)
        return end(INVALID_ARGUMENT);
    if (device->mig >= 0 || state_text("%s.%s.%s", device->prefix, set, names[which]) == NULL)
        return end(NOT_SUPPORTED);
    *out = (unsigned)raw_or(state_integer(0, "%s.%s.%s", device->prefix, set, names[which]), function,
                            device->gpu);
    return end(OK);
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned which, unsigned *out)
{
    return read_clock("nvmlDeviceGetClockInfo", device, "clock", which, out);
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned which, unsigned *out)
{
    return read_clock("nvmlDeviceGetMaxClockInfo", device, "clock_max", which, out);
}

EXPORT nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned *out)
{
    (void)fan;
    return nvmlDeviceGetFanSpeed(device, out);
}

/* ---- errors of the memory ---- */

EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetEccMode", device);
    if (result != OK)
        return result;
    if (device->mig >= 0 || state_text("%s.ecc.mode", device->prefix) == NULL)
        return end(NOT_SUPPORTED);
    *current = (unsigned)raw_or(state_integer(0, "%s.ecc.mode", device->prefix),
                                "nvmlDeviceGetEccMode", device->gpu);
    *pending = (unsigned)state_integer(*current, "%s.ecc.mode_pending", device->prefix);
    return end(OK);
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned error, unsigned span,
                                                unsigned long long *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetTotalEccErrors", device);
    if (result != OK)
        return result;
    if (device->mig >= 0 || state_integer(0, "%s.ecc.mode", device->prefix) == 0)
        return end(NOT_SUPPORTED);
    *out = raw_or(state_integer(0, "%s.ecc.%s.%s", device->prefix,
                                error == 0 ? "corrected" : "uncorrected",
                                span == 0 ? "volatile" : "aggregate"),
                  "nvmlDeviceGetTotalEccErrors", device->gpu);
    return end(OK);
}

static unsigned rows(nvmlDevice_t device, const char *cause)
{
    return (unsigned)raw_or(state_integer(0, "%s.remapped.%s", device->prefix, cause),
                            "nvmlDeviceGetRemappedRows", device->gpu);
}

EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected,
                                              unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetRemappedRows", device);
    if (result != OK)
        return result;
    if (device->mig >= 0 || state_text("%s.remapped.corrected", device->prefix) == NULL)
        return end(NOT_SUPPORTED);
    *corrected = rows(device, "corrected");
    *uncorrected = rows(device, "uncorrected");
    *pending = rows(device, "pending");
    *failed = rows(device, "failed");
    return end(OK);
}

EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned cause, unsigned *count,
                                              unsigned long long *addresses)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetRetiredPages", device);
    unsigned room = *count;
    if (result != OK)
        return result;
    if (device->mig >= 0 || state_text("%s.retired.corrected", device->prefix) == NULL)
        return end(NOT_SUPPORTED);
    *count = (unsigned)state_integer(0, "%s.retired.%s", device->prefix,
                                     cause == 0 ? "corrected" : "uncorrected");
    if (*count > 0 && (addresses == NULL || room < *count))
        result = INSUFFICIENT_SIZE;
    for (unsigned i = 0; result == OK && i < *count; i++)
        addresses[i] = 0x10000ull * (i + 1);
    return end_list(result, count, "nvmlDeviceGetRetiredPages", device->gpu);
}
