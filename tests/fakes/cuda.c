/*
 * A libcuda.so.1 of our own, as far as tests/gpu calls it: it keeps order as the real one does (no
 * call before cuInit, none without a context, no address that nobody allocated) and time as a card
 * would (one queue; a kernel takes its turns, a copy its bytes), and it counts.
 */
#include "cuda_fake.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct context {
    int device;
};

EXPORT CUresult cuInit(unsigned int flags) { return flags == 0 ? initialize() : INVALID_VALUE; }

EXPORT CUresult cuDriverGetVersion(int *version)
{
    *version = 12040;
    return OK;
}

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
};

static CUresult error_text(CUresult error, const char **text, int long_form)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error) {
            *text = long_form ? errors[i].text : errors[i].name;
            return OK;
        }
    *text = NULL;
    return INVALID_VALUE;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **pStr)
{
    return error_text(error, pStr, 0);
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **pStr)
{
    return error_text(error, pStr, 1);
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    READY(0);
    *count = (int)*setting("devices");
    return OK;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    READY(0);
    if (ordinal < 0 || ordinal >= (int)*setting("devices"))
        return INVALID_DEVICE;
    *device = ordinal;
    return OK;
}

EXPORT CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    READY(0);
    snprintf(name, (size_t)len, "Fake GPU %d", dev);
    return OK;
}

/* The UUID of the fake NVML's GPU of this index. */
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    READY(0);
    memset(uuid, 0, sizeof *uuid);
    uuid->bytes[6] = 0x40;
    uuid->bytes[8] = (char)0x80;
    uuid->bytes[15] = (char)dev;
    return OK;
}

EXPORT CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    READY(0);
    const char *name = attrib == 16 ? "processors" : attrib == 75 ? "major" : "minor";
    if ((attrib != 16 && attrib != 75 && attrib != 76) || dev < 0)
        return INVALID_VALUE;
    *pi = (int)*setting(name);
    return OK;
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    READY(0);
    if (flags > 0xff)
        return INVALID_VALUE;
    *pctx = calloc(1, sizeof **pctx);
    (*pctx)->device = dev;
    current = *pctx;
    ++*setting("contexts");
    return OK;
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    READY(1);
    if (ctx != current)
        return INVALID_CONTEXT;
    free(ctx);
    current = NULL;
    --*setting("contexts");
    return OK;
}

/* Puts the log where the options say, as the compiler does. */
static void tell(unsigned int count, const CUjit_option *options, void **values)
{
    char *log = NULL;
    size_t size = 0;
    for (unsigned int i = 0; i < count; i++) {
        if (options[i] == 5)
            log = values[i];
        if (options[i] == 6)
            size = (size_t)(uintptr_t)values[i];
    }
    if (log != NULL && size > 0)
        snprintf(log, size, "%s", refusal());
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                                   CUjit_option *options, void **optionValues)
{
    READY(1);
    const char *text = image, *entry = strstr(text, ".entry ");
    if (refusal()[0] != '\0' || strncmp(text, ".version ", 9) != 0 || entry == NULL) {
        tell(numOptions, options, optionValues);
        return INVALID_PTX;
    }
    *module = calloc(1, sizeof **module);
    sscanf(entry, ".entry %63[^(]", (*module)->entry);
    const char *end = strchr(entry, ')');
    for (const char *at = entry; (at = strstr(at, ".param ")) != NULL && at < end; at++)
        (*module)->parameters++;
    ++*setting("modules");
    return OK;
}

EXPORT CUresult cuModuleUnload(CUmodule hmod)
{
    READY(1);
    free(hmod);
    --*setting("modules");
    return OK;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    READY(1);
    if (strcmp(hmod->entry, name) != 0)
        return NOT_FOUND;
    *hfunc = hmod;
    return OK;
}

/* Every kernel of ours has an address first and its number of turns last. */
EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                               unsigned int gridDimZ, unsigned int blockDimX,
                               unsigned int blockDimY, unsigned int blockDimZ,
                               unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
                               void **extra)
{
    READY(1);
    unsigned threads = blockDimX * blockDimY * blockDimZ;
    if (f == NULL || gridDimX * gridDimY * gridDimZ == 0 || threads == 0 || threads > 1024 ||
        sharedMemBytes != 0 || hStream != NULL || extra != NULL || f->parameters < 2)
        return INVALID_VALUE;
    if (!allocated(*(CUdeviceptr *)kernelParams[0], 1))
        return INVALID_VALUE;
    unsigned turns = *(unsigned *)kernelParams[f->parameters - 1];
    if (turns == 0)
        return INVALID_VALUE;
    enqueue(turns * *setting("seconds_per_turn"));
    ++*setting("launches");
    return OK;
}
