/* The native module's own functions, without a Python: two threads over one memory, and hostile bytes in exact buffers.
 *
 *   harness ring N        a writer and a reader that parks, with slabs; the writer waits for room on a small ring
 *   harness exchange N    a client and an engine in lock-step, both park; a third thread pushes commands
 *   harness images N      an engine and a client that hand one image slot to and fro
 *   harness hostile N     N rings, envelopes and arrays with bytes that no peer may write, each in a heap block of its size
 *
 * The sources are included as they are. What they call of Python is a stub: an error is a flag, an object is one object.
 */
#include <Python.h>

/* The threads stand for processes, each of which has its own reference counts. */
#undef Py_True
#undef Py_False
#undef Py_None
#define Py_True (&constants[0])
#define Py_False (&constants[1])
#define Py_None (&constants[2])
static __thread PyObject constants[3];

#include "arena.c"
#include "batch_scan.c"
#include "client_channel.c"
#include "engine_channel.c"
#include "envelope.c"
#include "image_slot.c"
#include "memory.c"
#include "ring.c"
#include "ring_reader.c"
#include "ring_writer.c"
#include "wait.c"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Python --------------------------------------------------------------------------------------------------------- */

static __thread int error_set;
static __thread PyObject object_of_thread = {.ob_refcnt = 1 << 30};
static __thread uint64_t touched; /* what is copied is read to its end */

PyThreadState *PyEval_SaveThread(void) { return NULL; }
void PyEval_RestoreThread(PyThreadState *state) {}
int PyErr_CheckSignals(void) { return 0; }
PyObject *PyErr_Occurred(void) { return error_set ? &object_of_thread : NULL; }
void PyErr_Clear(void) { error_set = 0; }
PyObject *PyImport_ImportModule(const char *name) { return error_set = 1, NULL; } /* refuse() words its error in Python */
PyObject *PyObject_CallMethod(PyObject *object, const char *name, const char *format, ...) { return error_set = 1, NULL; }
PyObject *PyErr_NoMemory(void) { return error_set = 1, NULL; }
char *PyBytes_AsString(PyObject *bytes) { abort(); } /* no record is so long that it is copied without the GIL */
PyObject *PyBytes_FromStringAndSize(const char *bytes, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) touched += (uint8_t)bytes[i];
    return &object_of_thread;
}
PyObject *PyLong_FromLong(long value) { return &object_of_thread; }
PyObject *PyLong_FromUnsignedLong(unsigned long value) { return &object_of_thread; }
PyObject *PyLong_FromUnsignedLongLong(unsigned long long value) { return &object_of_thread; }
unsigned long PyLong_AsUnsignedLong(PyObject *number) { return (unsigned long)(uintptr_t)number; }
long PyLong_AsLong(PyObject *number) { return (long)(uintptr_t)number; }
PyObject *PyTuple_New(Py_ssize_t n) { return &object_of_thread; }
int PyTuple_SetItem(PyObject *tuple, Py_ssize_t i, PyObject *item) { return 0; }
PyObject *PyList_New(Py_ssize_t n) { return &object_of_thread; }
int PyList_Append(PyObject *list, PyObject *item) { return 0; }
void _Py_Dealloc(PyObject *object) { abort(); }
int PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags) { return *view = *(Py_buffer *)object, 0; }
void PyBuffer_Release(Py_buffer *view) {}

const uint8_t *array_bytes(PyObject *array, const ArrayFormat *format) { return (const uint8_t *)array; } /* arrays.c */
uint32_t mappings_lost; /* truncation.c: nothing is truncated here */
int is_in_lost_mapping(const void *address) { return 0; }
void *never_initialised(void) { abort(); }

/* ---- what the threads share ----------------------------------------------------------------------------------------- */

static void must(int holds, const char *what, uint64_t at) {
    if (holds) return;
    fprintf(stderr, "%s, at %llu\n", what, (unsigned long long)at);
    exit(1);
}

static uint64_t count;

static void in_threads(void *(*const *bodies)(void *), int n) {
    pthread_t threads[3];
    for (int i = 0; i < n; i++) must(!pthread_create(&threads[i], NULL, bodies[i], NULL), "pthread_create", i);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static uint32_t park_engine[2], park_frame[2]; /* each with the CPU behind it */

static Ring ring_at(uint8_t *memory, uint32_t size, uint32_t *park) {
    Ring r = {.data = memory + RING_HEAD,
              .write = (uint32_t *)memory,
              .read = (uint32_t *)(memory + RING_READ),
              .freed = (uint32_t *)(memory + RING_FREED),
              .park = park,
              .size = size,
              .backed = size,
              .socket = -1,
              .wakes = 1};
    r.budget.strategy = WAIT_ADAPTIVE;
    return r;
}

static uint32_t length_of(uint64_t number, const Ring *r) { return (uint32_t)(number * 7 % ring_largest(r)) + 1; }

#define SLAB_BYTES 4096u
static int is_slab(const Ring *r, uint64_t number) { return r->arena.size && number % 8 == 3; }

static void push_slab(Ring *r, uint64_t number) {
    uint8_t bytes[SLAB_BYTES / 3]; /* so that they go around the arena's end */
    memset(bytes, (int)(number & 255), sizeof bytes);
    Piece pieces[2] = {{bytes, 100}, {bytes, sizeof bytes - 100}};
    PyObject *pushed;
    while ((pushed = arena_push(r, pieces, 2, number, 0)) == Py_False) {
        uint32_t skipped;
        int64_t need = arena_need(r, sizeof bytes), least = ring_need(r, REFERENCE_BYTES, &skipped);
        wait_writable_slice(r, need > least ? need : least, lucky_now_ns() + 1000000000);
    }
    must(pushed == Py_True, "a slab is refused", number);
}

static void push(Ring *r, uint64_t number) {
    if (is_slab(r, number)) {
        push_slab(r, number);
        return;
    }
    uint32_t need, length = length_of(number, r), skipped;
    PyObject *answer;
    uint8_t *place;
    while (!(place = ring_reserve(r, length, &need, &answer)))
        wait_writable_slice(r, ring_need(r, length, &skipped), lucky_now_ns() + 1000000000);
    memset(place, (int)(number & 255), length);
    ring_publish(r, need);
}

static int pop(Ring *r, uint64_t number) {
    Record record;
    int found = ring_oldest(r, &record);
    must(!error_set, "a record is refused", number);
    if (!found) return 0;
    must(record.length == (is_slab(r, number) ? SLAB_BYTES / 3 : length_of(number, r)), "a record of another length", number);
    for (uint32_t i = 0; i < record.length; i++) must(record.start[i] == (number & 255), "a record is torn", number);
    ring_give_back(r, record.after);
    return 1;
}

/* ---- ring ----------------------------------------------------------------------------------------------------------- */

#define RING_BYTES 256u
static _Alignas(128) uint8_t ring_memory[RING_HEAD + RING_BYTES];
static _Alignas(64) uint8_t arena_memory[SLAB_BYTES];

/* The ring with an arena beside it. */
static Ring ring_and_arena(Slab *slabs) {
    Ring r = ring_at(ring_memory, RING_BYTES, park_frame);
    r.arena = (Arena){.data = arena_memory, .size = SLAB_BYTES, .longest = UINT64_MAX, .slabs = slabs, .capacity = 4};
    return r;
}

static void *ring_writer_thread(void *unused) {
    Slab slabs[4];
    Ring r = ring_and_arena(slabs);
    for (uint64_t n = 0; n < count; n++) push(&r, n);
    return NULL;
}

static void *ring_reader_thread(void *unused) {
    Ring r = ring_and_arena(NULL);
    for (uint64_t n = 0; n < count;) {
        if (pop(&r, n)) n++;
        else {
            lucky_watch w = {NULL, 0, r.write, r.position, NULL};
            Waiter me = {.budget = r.budget, .wakes = 1, .park = r.park, .lock_fd = -1};
            wait_change(&w, &me, 1000000000, n % 3 == 0);
        }
    }
    return NULL;
}

/* ---- exchange ------------------------------------------------------------------------------------------------------- */

#define ENVS 37u
static uint64_t frame_seq, action_seq, heartbeat;
static uint32_t frame_status;
static float actions[ENVS], observations[ENVS];
static uint8_t control[ENVS], terminated[ENVS], truncated[ENVS];

static void *client_thread(void *unused) {
    float values[ENVS];
    uint8_t bits[ENVS];
    Client c = {.frame_seq = &frame_seq, .action_seq = &action_seq, .frame_status = &frame_status, .park_engine = park_engine};
    c.actions = (uint8_t *)actions;
    c.control = control;
    c.terminated = terminated;
    c.truncated = truncated;
    c.waiter = (Waiter){.budget = {WAIT_ADAPTIVE, 0}, .wakes = 1, .park = park_frame, .lock_fd = -1};
    c.kind.kind = 'f';
    c.action_format.size = sizeof actions;
    c.control_format.size = c.num_envs = ENVS;
    for (uint64_t n = 1; n <= count; n++) {
        for (uint32_t i = 0; i < ENVS; i++) values[i] = (float)n;
        memset(bits, n % 5 == 0, sizeof bits);
        must(client_publish(&c, (PyObject *)values, n % 5 ? Py_None : (PyObject *)bits) == FRAME, "actions are refused", n);
        int result;
        while ((result = client_collect(&c, 1000000000)) == TIMED_OUT) {}
        must(result == (n % 7 ? n % 3 ? FRAME : FRAME_ENDED : FRAME_REFUSED), "the result of another exchange", n);
        for (uint32_t i = 0; i < ENVS; i++) must(observations[i] == (float)n, "a frame is torn", n);
    }
    return NULL;
}

static uint64_t commands_pushed(uint64_t exchanges) { return exchanges / 4; }

static void *command_thread(void *unused) {
    Ring r = ring_at(ring_memory, RING_BYTES, park_engine);
    for (uint64_t n = 0; n < commands_pushed(count); n++) push(&r, n);
    return NULL;
}

static void *engine_thread(void *unused) {
    Ring r = ring_at(ring_memory, RING_BYTES, NULL);
    EngineEnd e = {.frame_seq = &frame_seq, .action_seq = &action_seq, .heartbeat = &heartbeat, .frame_status = &frame_status};
    e.park_frame = park_frame;
    e.commands = r.write;
    e.control = control;
    e.num_envs = ENVS;
    e.waiter = (Waiter){.budget = {WAIT_ADAPTIVE, 0}, .wakes = 1, .park = park_engine, .lock_fd = -1};
    uint64_t popped = 0;
    while (e.seq < count || popped < commands_pushed(count)) {
        int found = engine_wait(&e, 1000000000);
        if (found == TIMED_OUT) continue;
        must(found != OUT_OF_ORDER, "a counter is out of order", e.seq);
        while (found & HAS_COMMANDS && pop(&r, popped)) popped++;
        e.commands_read = r.position;
        if (!(found & HAS_ACTIONS)) continue;
        uint64_t n = e.seq + 1;
        must(!!(found & HAS_CONTROL) == (n % 5 == 0), "control bytes of another exchange", n);
        for (uint32_t i = 0; i < ENVS; i++) must(actions[i] == (float)n, "actions are torn", n);
        for (uint32_t i = 0; i < ENVS; i++) observations[i] = (float)n;
        memset(terminated, n % 3 == 0, ENVS);
        engine_announce(&e, n % 7 == 0);
    }
    return NULL;
}

/* ---- images --------------------------------------------------------------------------------------------------------- */

#define AS_OBJECT(number) ((PyObject *)(uintptr_t)(number))
static uint32_t slot_words[2], park_slot[2];
static uint64_t pixels[64];

static ImageSlot slot(void) { return (ImageSlot){.number = &slot_words[0], .owner = &slot_words[1], .park = park_slot}; }

static void *image_engine(void *unused) {
    ImageSlot s = slot();
    Ring r = ring_at(ring_memory, RING_BYTES, park_frame);
    for (uint64_t n = 1; n <= count; n++) {
        while (slot_take((PyObject *)&s, AS_OBJECT(2 * n)) != Py_True) {
            lucky_watch w = {NULL, 0, s.owner, (uint32_t)(2 * (n - 1)), NULL};
            Waiter me = {.budget = {n % 2 ? WAIT_BLOCK : WAIT_ADAPTIVE, 0}, .wakes = 1, .park = s.park, .lock_fd = -1};
            wait_change(&w, &me, 1000000000, 0);
        }
        for (int i = 0; i < 64; i++) pixels[i] = n;
        slot_hand_over((PyObject *)&s, AS_OBJECT(2 * n));
        push(&r, n);
    }
    return NULL;
}

static void *image_client(void *unused) {
    ImageSlot s = slot();
    Ring r = ring_at(ring_memory, RING_BYTES, park_frame);
    for (uint64_t n = 1; n <= count;) {
        if (!pop(&r, n)) {
            lucky_watch w = {NULL, 0, r.write, r.position, NULL};
            Waiter me = {.budget = r.budget, .wakes = 1, .park = r.park, .lock_fd = -1};
            wait_change(&w, &me, 1000000000, 0);
            continue;
        }
        must(lucky_load32(s.number) == 2 * n, "a leased slot has another number", n);
        for (int i = 0; i < 64; i++) must(pixels[i] == n, "a leased image is torn", n);
        slot_give_back((PyObject *)&s, AS_OBJECT(2 * n++));
    }
    return NULL;
}

/* ---- hostile bytes -------------------------------------------------------------------------------------------------- */

static uint64_t seed;
static uint32_t any(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

static uint32_t odd_number(uint32_t size) {
    const uint32_t odd[] = {0, 1, 4, 7, 8, 12, 60, 64, size - 8, size - 4, size, size + 8, RING_SKIP, RING_SKIP - 7, 1u << 31};
    return any() % 3 ? odd[any() % (sizeof odd / sizeof *odd)] : any() % (2 * size);
}

static void hostile_ring(void) {
    const uint32_t size = 64u << any() % 5;
    uint8_t *memory = aligned_alloc(8, RING_HEAD + size); /* a byte behind it is not ours */
    memset(memory, 0, RING_HEAD + size);
    Ring w = ring_at(memory, size, NULL), r = ring_at(memory, size, NULL);
    w.position = r.position = *w.write = *w.read = (any() % 64) * 8;
    for (uint32_t i = any() % 6; i; i--) {
        uint32_t need, length = 1 + any() % ring_largest(&w), head;
        PyObject *answer;
        uint8_t *place = ring_reserve(&w, length, &need, &answer);
        if (!place) continue;
        for (uint32_t j = 0; j < length; j++) place[j] = (uint8_t)any();
        if (any() % 2 && length >= COMPACT_BYTES) {
            CompactRest rest = {any(), any() % 2, any(), any() % 4, COMPACT_PAYLOAD, 0, length - COMPACT_BYTES + (any() % 4 == 0)};
            memcpy(place, COMPACT_HEAD, sizeof COMPACT_HEAD);
            memcpy(place + sizeof COMPACT_HEAD, &rest, sizeof rest);
        } else if (length >= IMAGE_BYTES) {
            ImageRest rest = {any(), any(), any() % 4, IMAGE_PAYLOAD, IMAGE_IMAGES, 1, any(), any(), any(), any(), 0, length - IMAGE_BYTES};
            memcpy(place, IMAGE_HEAD, sizeof IMAGE_HEAD);
            memcpy(place + sizeof IMAGE_HEAD, &rest, sizeof rest);
        }
        head = any() % 8;
        if (!head) *(uint32_t *)(place - 4) = odd_number(size);
        ring_publish(&w, need);
    }
    uint32_t arena_size = 64 + any() % 4096;
    uint8_t *arena = malloc(arena_size);
    for (uint32_t i = 0; i < arena_size; i++) arena[i] = (uint8_t)any();
    if (any() % 2) {
        r.arena.data = arena;
        r.arena.size = arena_size;
        if (any() % 2) r.arena.longest = any() % 200;
    }
    for (uint32_t i = any() % 3, index; i; i--) {
        index = any() % (size / 8) * 8;
        uint64_t said[4] = {RING_REFERENCE, any() % 2 * any() % 5000, any() % 2 ? 1 + any() % arena_size : any() - 1ull, any()};
        if (any() % 4 == 0) said[1] = -1ull - any() % 100;
        if (index + sizeof said <= size) memcpy(r.data + index, said, sizeof said);
    }
    for (uint32_t i = any() % 4; i; i--) *(uint32_t *)(r.data + any() % (size / 4) * 4) = odd_number(size);
    if (any() % 4 == 0) *r.write = odd_number(size);
    if (any() % 8 == 0) r.position = odd_number(size);
    for (int i = 0; i < 40 && !error_set; i++) {
        uint32_t before = r.position;
        ring_pop_batch((PyObject *)&r, AS_OBJECT(1 + any() % 4));
        if (r.position == before) break;
    }
    error_set = 0;
    ring_pending((PyObject *)&r, NULL);
    error_set = 0;
    *w.read = odd_number(size);
    uint32_t need;
    PyObject *answer;
    uint8_t *place = ring_reserve(&w, any() % (size / 2), &need, &answer);
    if (place) memset(place, 1, need - 4 < size / 4 - 4 ? 1 : 0);
    error_set = 0;
    free(arena);
    free(memory);
}

static void hostile_arrays(void) {
    size_t n = any() % 3000, shift = any() % 8;
    uint8_t *flags = malloc(n + shift + 1);
    memset(flags, 0, n + shift + 1);
    must(!any_nonzero(flags + shift, n), "zeros are no zeros", n);
    flags[shift + n] = 1; /* behind them */
    must(!any_nonzero(flags + shift, n), "what is behind the flags counts", n);
    if (n) flags[shift + any() % n] = 1;
    must(any_nonzero(flags + shift, n) == (n > 0), "a flag is overlooked", n);
    free(flags);
    ActionKind kind = {"fdqB"[any() % 4], (int)(any() % 2), -1, 1, -1, 1};
    uint64_t outside = 0;
    size_t bytes = any() % 100 * 8;
    uint8_t *values = malloc(bytes + 8);
    for (size_t i = 0; i < bytes; i++) values[i] = (uint8_t)any();
    scan_actions(values, bytes, &kind, &outside);
    free(values);
}

static void *ring_bodies[] = {ring_writer_thread, ring_reader_thread};
static void *exchange_bodies[] = {client_thread, engine_thread, command_thread};
static void *image_bodies[] = {image_engine, image_client};

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    count = strtoull(argv[2], NULL, 10);
    if (!strcmp(argv[1], "ring")) in_threads((void *(*const *)(void *))ring_bodies, 2);
    else if (!strcmp(argv[1], "exchange")) in_threads((void *(*const *)(void *))exchange_bodies, 3);
    else if (!strcmp(argv[1], "images")) in_threads((void *(*const *)(void *))image_bodies, 2);
    else if (!strcmp(argv[1], "hostile"))
        for (seed = 1; count--;) {
            hostile_ring();
            hostile_arrays();
        }
    else return 2;
    printf("%s: done\n", argv[1]);
    return 0;
}
