/* A stand-in for libcuda.so.1 with two devices: enough to see that every call has the arguments that cuda.h says. */
#include <stddef.h>
#include <string.h>

typedef struct { char reserved[64]; } Handle;
typedef unsigned long long Pointer;

static char memory[4096];
static int pushed, current; /* contexts on the stack, and the device of the top one */
int stub_result, stub_registered, stub_opened, stub_contexts;

#define DONE return stub_result
#define IN_CONTEXT if (!pushed) return 201

int cuInit(unsigned flags) { return flags ? 1 : stub_result; }
int cuDriverGetVersion(int *version) { *version = 12040; DONE; }
int cuDeviceGetCount(int *count) { *count = 2; DONE; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal + 10; DONE; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, device == 11 ? "second" : "first", size); DONE; }
int cuDeviceGetUuid(char *uuid, int device) { memset(uuid, device, 16); uuid[0] = 0; DONE; }
int cuDevicePrimaryCtxRetain(void **context, int device) { stub_contexts++; *context = memory + device; DONE; }
int cuCtxPushCurrent_v2(void *context) {
    if (stub_result == 4) return 4;
    pushed++;
    current = (int)((char *)context - memory) - 10;
    return 0;
}
int cuCtxPopCurrent_v2(void **context) { *context = 0; return pushed-- > 0 ? 0 : 201; }
int cuMemHostRegister_v2(void *address, size_t size, unsigned flags) {
    IN_CONTEXT;
    stub_registered += address && size == 8192 && flags == 1;
    DONE;
}
int cuMemHostUnregister(void *address) { IN_CONTEXT; stub_registered -= !!address; DONE; }
int cuPointerGetAttribute(void *data, int attribute, Pointer pointer) {
    if (attribute != 9 || pointer < (Pointer)memory) return 1;
    *(int *)data = 1;
    DONE;
}
int cuMemGetAddressRange_v2(Pointer *begin, size_t *size, Pointer pointer) {
    IN_CONTEXT;
    *begin = (Pointer)memory;
    *size = sizeof memory;
    return pointer - *begin < sizeof memory ? stub_result : 1;
}
int cuIpcGetMemHandle(Handle *handle, Pointer pointer) {
    IN_CONTEXT;
    memset(handle, 0x5a, sizeof *handle);
    handle->reserved[63] = (char)current;
    return pointer ? stub_result : 1;
}
int cuIpcOpenMemHandle_v2(Pointer *pointer, Handle handle, unsigned flags) {
    IN_CONTEXT;
    if (flags != 1 || handle.reserved[0] != 0x5a || handle.reserved[63] != 1) return 400;
    *pointer = (Pointer)memory;
    stub_opened++;
    DONE;
}
int cuIpcCloseMemHandle(Pointer pointer) { IN_CONTEXT; stub_opened -= pointer == (Pointer)memory; DONE; }
int cuGetErrorName(int result, const char **text) { *text = result == 400 ? "CUDA_ERROR_INVALID_HANDLE" : "CUDA_ERROR_STUB"; return 0; }
int cuGetErrorString(int result, const char **text) { *text = "the stub says so"; return 0; }
void *stub_memory(void) { return memory; }
