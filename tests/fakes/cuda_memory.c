/* Memory, copies and marks of the fake libcuda. */
#include "cuda_fake.h"

#include <stdlib.h>

struct buffer {
    CUdeviceptr address;
    size_t size;
    struct buffer *next;
};

static struct buffer *buffers;
static CUdeviceptr next_address = 0x700000000000ull;

int allocated(CUdeviceptr address, size_t size)
{
    for (struct buffer *one = buffers; one != NULL; one = one->next)
        if (address >= one->address && address + size <= one->address + one->size)
            return 1;
    return 0;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    READY(1);
    *total = *free_bytes = (size_t)*setting("memory_bytes");
    for (struct buffer *one = buffers; one != NULL; one = one->next)
        *free_bytes -= one->size;
    return OK;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    READY(1);
    size_t free_bytes, total;
    cuMemGetInfo_v2(&free_bytes, &total);
    if (bytesize == 0 || bytesize > free_bytes)
        return bytesize == 0 ? INVALID_VALUE : OUT_OF_MEMORY;
    struct buffer *made = calloc(1, sizeof *made);
    *made = (struct buffer){next_address, bytesize, buffers};
    buffers = made;
    next_address += (bytesize + 511) / 512 * 512;
    *dptr = made->address;
    ++*setting("buffers");
    return OK;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    READY(1);
    for (struct buffer **one = &buffers; *one != NULL; one = &(*one)->next)
        if ((*one)->address == dptr) {
            struct buffer *gone = *one;
            *one = gone->next;
            free(gone);
            --*setting("buffers");
            return OK;
        }
    return INVALID_VALUE;
}

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
    READY(1);
    (void)uc;
    return allocated(dstDevice, N) ? OK : INVALID_VALUE;
}

EXPORT CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    READY(1);
    if (Flags > 7)
        return INVALID_VALUE;
    *pp = malloc(bytesize);
    ++*setting("host_buffers");
    return OK;
}

EXPORT CUresult cuMemFreeHost(void *p)
{
    READY(1);
    free(p);
    --*setting("host_buffers");
    return OK;
}

static CUresult copy(const void *host, CUdeviceptr device, size_t size, CUstream stream)
{
    if (host == NULL || stream != NULL || !allocated(device, size))
        return INVALID_VALUE;
    enqueue((double)size / *setting("link_bytes_per_second"));
    *setting("bytes_copied") += (double)size;
    return OK;
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                                     CUstream hStream)
{
    READY(1);
    return copy(srcHost, dstDevice, ByteCount, hStream);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                     CUstream hStream)
{
    READY(1);
    return copy(dstHost, srcDevice, ByteCount, hStream);
}

EXPORT CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    READY(1);
    if (Flags > 7)
        return INVALID_VALUE;
    *phEvent = calloc(1, sizeof **phEvent);
    (*phEvent)->at = -1;
    ++*setting("events");
    return OK;
}

EXPORT CUresult cuEventDestroy_v2(CUevent hEvent)
{
    READY(1);
    free(hEvent);
    --*setting("events");
    return OK;
}

EXPORT CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    READY(1);
    if (hStream != NULL)
        return INVALID_VALUE;
    hEvent->at = enqueue(0);
    return OK;
}

EXPORT CUresult cuEventSynchronize(CUevent hEvent)
{
    READY(1);
    sleep_until(hEvent->at);
    return OK;
}

EXPORT CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    READY(1);
    if (hStart->at < 0 || hEnd->at < 0)
        return INVALID_VALUE;
    if (now() < hEnd->at)
        return NOT_READY;
    *pMilliseconds = (float)((hEnd->at - hStart->at) * 1000);
    return OK;
}
