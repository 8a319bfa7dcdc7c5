/* The fake driver's links and fabric, and what it tells by field number. */
#define _GNU_SOURCE
#include "nvml_fake.h"

#include <math.h>
#include <stddef.h>

struct field {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type, result;
    nvmlValue_t value;
};

enum { ALL_LINKS = 0xffffffffu };

static void unsigned_value(struct field *field, unsigned value)
{
    field->type = TYPE_UNSIGNED;
    field->value.ullVal = 0;
    field->value.uiVal = value;
}

static void long_value(struct field *field, unsigned long long value)
{
    field->type = TYPE_UNSIGNED_LONG_LONG;
    field->value.ullVal = value;
}

/* Fields 197 and 198: bytes over PCIe; as wide as the state says (64 bits, or 32 that wrap). */
static unsigned pcie_field(nvmlDevice_t device, const char *name, struct field *field)
{
    unsigned long long value;
    if (state_text("%s.%s", device->prefix, name) == NULL)
        return NOT_SUPPORTED;
    value = (unsigned long long)device_counter(device, name);
    if (state_integer(64, "%s.pcie.counter_bits", device->prefix) == 32)
        unsigned_value(field, (unsigned)value);
    else
        long_value(field, value);
    return OK;
}

/* Fields 138 and 139: KiB over one NVLink or, with scope ALL_LINKS, over all where allowed. */
static unsigned nvlink_field(nvmlDevice_t device, const char *name, struct field *field)
{
    unsigned long long links = state_integer(0, "%s.nvlink.links", device->prefix);
    double total = device_counter(device, name) / 1024.0;
    if (links == 0)
        return NOT_SUPPORTED;
    if (field->scope == ALL_LINKS) {
        if (state_integer(1, "%s.nvlink.totals", device->prefix) == 0)
            return NOT_SUPPORTED;
    } else if (field->scope >= links) {
        return INVALID_ARGUMENT;
    } else {
        total /= (double)links;
    }
    long_value(field, (unsigned long long)total);
    return OK;
}

/* A number of the state file, or NOT_SUPPORTED where it has none. */
static unsigned plain_field(nvmlDevice_t device, const char *name, struct field *field)
{
    if (state_text("%s.%s", device->prefix, name) == NULL)
        return NOT_SUPPORTED;
    long_value(field, state_integer(0, "%s.%s", device->prefix, name));
    return OK;
}

/* What drivers of Hopper and later tell of one link (the scope): speed in MB/s, errors. */
static unsigned field_of_link(nvmlDevice_t device, const char *name, struct field *field)
{
    if (field->scope >= state_integer(0, "%s.nvlink.links", device->prefix))
        return INVALID_ARGUMENT;
    return plain_field(device, name, field);
}

static unsigned read_field(nvmlDevice_t device, struct field *field, double now)
{
    switch (field->id) {
    case 38:
        return plain_field(device, "nvlink.errors.crc_flit", field);
    case 45:
        return plain_field(device, "nvlink.errors.crc_data", field);
    case 52:
        return plain_field(device, "nvlink.errors.replay", field);
    case 59:
        return plain_field(device, "nvlink.errors.recovery", field);
    case 90:
        return plain_field(device, "nvlink.speed", field);
    case 160:
        return plain_field(device, "nvlink.errors.ecc_data", field);
    case 161:
        return field_of_link(device, "nvlink.link_errors.replay", field);
    case 162:
        return field_of_link(device, "nvlink.link_errors.recovery", field);
    case 163:
        return field_of_link(device, "nvlink.link_errors.crc", field);
    case 164:
        return field_of_link(device, "nvlink.speed_by_link", field);
    case 82:
        if (state_text("%s.temperature.memory", device->prefix) == NULL)
            return NOT_SUPPORTED;
        unsigned_value(field, (unsigned)llround(device_mean(device, "temperature.memory", now, now)));
        return OK;
    case 83:
        if (state_integer(0, "%s.energy", device->prefix) == 0)
            return NOT_SUPPORTED;
        long_value(field, (unsigned long long)(device_counter(device, "power.watts") * 1000.0));
        return OK;
    case 91:
        unsigned_value(field, (unsigned)state_integer(0, "%s.nvlink.links", device->prefix));
        return OK;
    case 138:
        return nvlink_field(device, "nvlink.tx_bytes", field);
    case 139:
        return nvlink_field(device, "nvlink.rx_bytes", field);
    case 186:
        unsigned_value(field, (unsigned)llround(device_mean(device, "power.watts", now, now) * 1000.0));
        return OK;
    case 197:
        return pcie_field(device, "pcie.tx_bytes", field);
    case 198:
        return pcie_field(device, "pcie.rx_bytes", field);
    default:
        return NOT_SUPPORTED;
    }
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, struct field *fields)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetFieldValues", device);
    double now;
    if (result != OK)
        return result;
    if (device->mig >= 0)
        return end(NOT_SUPPORTED);
    now = state_now();
    for (int i = 0; i < count; i++) {
        fields[i].timestamp = (long long)(now * 1e6);
        fields[i].latency = 0;
        fields[i].result = (unsigned)state_integer(read_field(device, &fields[i], now),
                                                   "field.%u.%d.error", fields[i].id, device->gpu);
        if (fields[i].result == OK && state_text("raw.field.%u.%d", fields[i].id, device->gpu) != NULL)
            long_value(&fields[i], state_integer(0, "raw.field.%u.%d", fields[i].id, device->gpu));
        note_number("nvmlDeviceGetFieldValues");
        if (fields[i].result == OK && state_text("raw.nvmlDeviceGetFieldValues.%d", device->gpu) != NULL)
            long_value(&fields[i], raw_or(0, "nvmlDeviceGetFieldValues", device->gpu));
    }
    return end(OK);
}

/* KiB/s over the last 20 ms, as the real call. */
EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned which, unsigned *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetPcieThroughput", device);
    const char *name = which == 0 ? "pcie.tx_bytes" : "pcie.rx_bytes";
    double now;
    if (result != OK)
        return result;
    if (device->mig >= 0 || state_text("%s.%s", device->prefix, name) == NULL)
        return end(NOT_SUPPORTED);
    now = state_now();
    *out = (unsigned)(device_mean(device, name, now - 0.02, now) / 1024.0);
    return end(OK);
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetNvLinkState", device);
    if (result != OK)
        return result;
    if (link >= state_integer(0, "%s.nvlink.links", device->prefix))
        return end(NOT_SUPPORTED);
    *out = (unsigned)raw_or(state_integer(1, "%s.nvlink.link.%u", device->prefix, link),
                            "nvmlDeviceGetNvLinkState", device->gpu);
    return end(OK);
}

/* ---- fabric ---- */

struct fabric_v2 {
    unsigned version;
    unsigned char cluster[16];
    unsigned status, clique;
    unsigned char state; /* one byte in the driver, whatever the binding reads */
    unsigned health_mask;
};
struct fabric_v3 {
    unsigned version;
    unsigned char cluster[16];
    unsigned status, clique;
    unsigned char state;
    unsigned health_mask;
    unsigned char health;
};

/* Both versions have the same beginning; a driver before "fabric.version" knows the older only. */
EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, struct fabric_v3 *out)
{
    nvmlReturn_t result = begin_on("nvmlDeviceGetGpuFabricInfoV", device);
    unsigned newest;
    if (result != OK)
        return result;
    if (device->mig >= 0 || state_text("%s.fabric.state", device->prefix) == NULL)
        return end(NOT_SUPPORTED);
    newest = (unsigned)state_integer(3, "%s.fabric.version", device->prefix);
    if (out->version != (2u << 24 | sizeof(struct fabric_v2))
        && (newest < 3 || out->version != (3u << 24 | sizeof(struct fabric_v3))))
        return end(VERSION_MISMATCH);
    out->status = (unsigned)state_integer(0, "%s.fabric.status", device->prefix);
    out->clique = 0;
    out->state = (unsigned char)raw_or(state_integer(0, "%s.fabric.state", device->prefix),
                                       "nvmlDeviceGetGpuFabricInfoV", device->gpu);
    out->health_mask = 0;
    if (out->version >> 24 == 3)
        out->health = (unsigned char)state_integer(0, "%s.fabric.health", device->prefix);
    return end(OK);
}
