/* A stand-in for libcuda.so.1 with two devices, whose memory is files of this host's memory: other processes open it by
 * its handle, as CUDA IPC does. Every call fails whose arguments or context are not what cuda.h asks for. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct { int owner, file, device, mark; char rest[48]; } Handle;
typedef unsigned long long Pointer;
typedef struct { Pointer begin; size_t size; int file, device; } Allocation; /* file: -1 where another process's */

enum { MOST = 4096, INVALID_VALUE = 1, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, MARK = 0x5a5a5a5a };

static Allocation allocations[MOST];
static int contexts[2], pushed, current; /* contexts on the stack, and the device of the top one */
int stub_result, stub_registered, stub_opened, stub_contexts;
int stub_any_memory; /* other memory of this process counts as the first device's: a stand-in for PyTorch has it there */

#define DONE return stub_result
#define IN_CONTEXT if (!pushed) return INVALID_CONTEXT

static Allocation *find(Pointer pointer) {
    for (Allocation *one = allocations; one < allocations + MOST; one++)
        if (one->size && pointer >= one->begin && pointer - one->begin < one->size) return one;
    return 0;
}

static int map(Pointer *pointer, size_t size, int file, int device, int kept) {
    Allocation *free_one = allocations;
    while (free_one < allocations + MOST && free_one->size) free_one++;
    void *begin = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (free_one == allocations + MOST || begin == MAP_FAILED) return INVALID_VALUE;
    *free_one = (Allocation){(Pointer)begin, size, kept, device};
    *pointer = (Pointer)begin;
    return 0;
}

static int unmap(Pointer pointer, int is_own) {
    Allocation *one = find(pointer);
    if (!one || one->begin != pointer || (one->file >= 0) != is_own) return INVALID_VALUE;
    if (is_own) {
        memset((void *)pointer, 0xee, one->size); /* what reads it after that is wrong, and sees it */
        close(one->file);
    }
    munmap((void *)pointer, one->size);
    one->size = 0;
    DONE;
}

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : stub_result; }
int cuDriverGetVersion(int *version) { *version = 12040; DONE; }
int cuDeviceGetCount(int *count) { *count = 2; DONE; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal + 10; DONE; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, device == 11 ? "second" : "first", size); DONE; }
int cuDeviceGetUuid(char *uuid, int device) { memset(uuid, device, 16); uuid[0] = 0; DONE; }
int cuDevicePrimaryCtxRetain(void **context, int device) { stub_contexts++; *context = contexts + device - 10; DONE; }
int cuCtxPushCurrent_v2(void *context) {
    if (stub_result == 4) return 4;
    pushed++;
    current = (int)((int *)context - contexts);
    return 0;
}
int cuCtxPopCurrent_v2(void **context) { *context = 0; return pushed-- > 0 ? 0 : INVALID_CONTEXT; }
int cuCtxSynchronize(void) { IN_CONTEXT; DONE; }
int cuMemHostRegister_v2(void *address, size_t size, unsigned flags) {
    IN_CONTEXT;
    stub_registered += address && size && flags == 1;
    DONE;
}
int cuMemHostUnregister(void *address) { IN_CONTEXT; stub_registered -= !!address; DONE; }
int cuMemAlloc_v2(Pointer *pointer, size_t size) {
    IN_CONTEXT;
    int file = memfd_create("device memory", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)size)) return INVALID_VALUE;
    return map(pointer, size, file, current, file);
}
int cuMemFree_v2(Pointer pointer) { IN_CONTEXT; return unmap(pointer, 1); }
int cuMemcpyHtoD_v2(Pointer to, const void *from, size_t size) {
    IN_CONTEXT;
    if (!find(to) || !find(to + size - 1)) return INVALID_VALUE;
    memcpy((void *)to, from, size);
    DONE;
}
int cuMemcpyDtoH_v2(void *to, Pointer from, size_t size) {
    IN_CONTEXT;
    if (!find(from) || !find(from + size - 1)) return INVALID_VALUE;
    memcpy(to, (void *)from, size);
    DONE;
}
int cuPointerGetAttribute(void *data, int attribute, Pointer pointer) {
    Allocation *one = find(pointer);
    if (attribute != 9 || !(one || stub_any_memory)) return INVALID_VALUE;
    *(int *)data = one ? one->device : 0;
    DONE;
}
int cuMemGetAddressRange_v2(Pointer *begin, size_t *size, Pointer pointer) {
    IN_CONTEXT;
    Allocation *one = find(pointer);
    if (!one) return INVALID_VALUE;
    *begin = one->begin;
    *size = one->size;
    DONE;
}
int cuIpcGetMemHandle(Handle *handle, Pointer pointer) {
    IN_CONTEXT;
    Allocation *one = find(pointer);
    if (!one || one->file < 0 || one->device != current) return INVALID_VALUE;
    *handle = (Handle){getpid(), one->file, one->device, MARK, {0}};
    DONE;
}
int cuIpcOpenMemHandle_v2(Pointer *pointer, Handle handle, unsigned flags) {
    IN_CONTEXT;
    char path[64];
    struct stat seen;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.owner, handle.file);
    int file = handle.mark == MARK && handle.device == current && flags == 1 ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0 || fstat(file, &seen)) return INVALID_HANDLE;
    int result = map(pointer, (size_t)seen.st_size, file, current, -1);
    close(file);
    stub_opened += !result;
    return result ? result : stub_result;
}
int cuIpcCloseMemHandle(Pointer pointer) { IN_CONTEXT; int result = unmap(pointer, 0); stub_opened -= !result; return result; }
/* Events of this process, whose work is done at once. What was queued, in its order: w a wait, c a copy, h and d one from the
 * host and to it, r a record, s a synchronisation; stub_queued has the stream of the last. */
typedef struct { int mark; } Event;
typedef struct { int mark; char rest[60]; } EventHandle;
enum { EVENT = 0x3c3c3c3c };
static Event events[MOST];
char stub_order[16];
int stub_events;
Pointer stub_queued;

static int is_event(Event *event) { return event >= events && event < events + MOST && event->mark == EVENT; }
static int make(Event **made) {
    Event *event = events;
    while (event < events + MOST && event->mark) event++;
    if (event == events + MOST) return INVALID_VALUE;
    event->mark = EVENT;
    *made = event;
    stub_events++;
    DONE;
}
static int queue(char what, void *stream, int is_right) {
    IN_CONTEXT;
    if (!is_right) return INVALID_VALUE;
    size_t length = strlen(stub_order);
    if (length < sizeof stub_order - 1) stub_order[length] = what;
    stub_queued = (Pointer)stream;
    DONE;
}
int cuEventCreate(Event **made, unsigned flags) { IN_CONTEXT; return flags == 6 ? make(made) : INVALID_VALUE; }
int cuEventDestroy_v2(Event *event) {
    IN_CONTEXT;
    if (!is_event(event)) return INVALID_VALUE;
    event->mark = 0;
    stub_events--;
    DONE;
}
int cuEventQuery(Event *event) { IN_CONTEXT; return is_event(event) ? stub_result : INVALID_VALUE; }
int cuIpcGetEventHandle(EventHandle *handle, Event *event) {
    IN_CONTEXT;
    if (!is_event(event)) return INVALID_VALUE;
    *handle = (EventHandle){EVENT, {1}};
    DONE;
}
int cuIpcOpenEventHandle(Event **opened, EventHandle handle) {
    IN_CONTEXT;
    return handle.mark == EVENT && handle.rest[0] == 1 ? make(opened) : INVALID_HANDLE;
}
int cuEventRecord(Event *event, void *stream) { return queue('r', stream, is_event(event)); }
int cuStreamWaitEvent(void *stream, Event *event, unsigned flags) { return queue('w', stream, is_event(event) && !flags); }
int cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t size, void *stream) {
    int is_right = find(to) && find(to + size - 1);
    is_right &= stub_any_memory || (find(from) && find(from + size - 1));
    if (is_right) memcpy((void *)to, (void *)from, size);
    return queue('c', stream, is_right);
}
int cuStreamCreate(void **stream, unsigned flags) { IN_CONTEXT; *stream = events; return flags == 1 ? stub_result : INVALID_VALUE; }
int cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t size, void *stream) {
    int result = cuMemcpyHtoD_v2(to, from, size);
    return result ? result : queue('h', stream, 1);
}
int cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t size, void *stream) {
    int result = cuMemcpyDtoH_v2(to, from, size);
    return result ? result : queue('d', stream, 1);
}
int cuStreamSynchronize(void *stream) { return queue('s', stream, 1); }
int cuGetErrorName(int result, const char **text) { *text = result == INVALID_HANDLE ? "CUDA_ERROR_INVALID_HANDLE" : "CUDA_ERROR_STUB"; return 0; }
int cuGetErrorString(int result, const char **text) { *text = "the stub says so"; return 0; }
