/* Files of image slots beside the segment, `<segment>.images.<n>`: the bytes of images travel there, not through the rings.
 * A slot has one owner at a time: 0 is the engine, any other value the client, from the message that names the slot until
 * it writes 0. Its number is odd while it is written. schema/README.md has the layout. */
#ifndef LUCKY_IMAGES_H
#define LUCKY_IMAGES_H

#include "lucky_file.h"
#include "lucky_wait.h"

#define LUCKY_IMAGE_SLOTS 3u
#define LUCKY_IMAGE_PAGE 4096u /* the file's head; a slot's size is a multiple of it */
#define LUCKY_IMAGE_FILES 64u  /* of one client at once */

/* Where an image is: the struct ImagePlace of the schema. file 0: in its message. */
typedef struct {
    uint64_t length;
    uint32_t file, slot, number, padding;
} lucky_image_place;

/* sink: the stream whose images it holds, 0 for single answers. retired: that stream has ended; the client may still read. */
typedef struct {
    lucky_mapping mapping;
    uint64_t slot_bytes, sink;
    uint32_t file;
    int used, retired;
} lucky_image_file;

typedef struct {
    char segment[LUCKY_PATH_BYTES];
    lucky_image_file files[LUCKY_IMAGE_FILES];
    uint32_t last_file, last_number;
} lucky_images;

static inline uint32_t *lucky_slot_word(const lucky_image_file *f, uint32_t slot, uint32_t offset) {
    return (uint32_t *)(void *)(f->mapping.start + 64 + 128 * slot + offset);
}

static inline uint32_t *lucky_slot_owner(const lucky_image_file *f, uint32_t slot) { return lucky_slot_word(f, slot, 4); }

static inline uint32_t lucky_slots_out(const lucky_image_file *f) {
    uint32_t out = 0;
    for (uint32_t slot = 0; slot < LUCKY_IMAGE_SLOTS; slot++) out += lucky_load32(lucky_slot_owner(f, slot)) != 0;
    return out;
}

static inline void lucky_image_file_remove(lucky_image_file *f) {
    lucky_file_remove(f->mapping.path);
    lucky_unmap(&f->mapping);
    f->used = 0;
}

/* Remove the files of ended streams that the client has read. */
static inline void lucky_images_sweep(lucky_images *all) {
    for (lucky_image_file *f = all->files; f < all->files + LUCKY_IMAGE_FILES; f++)
        if (f->used && f->retired && !lucky_slots_out(f)) lucky_image_file_remove(f);
}

/* The stream has ended: its files go now when the client has given it up, else once it has read them. */
static inline void lucky_images_retire(lucky_images *all, uint64_t sink, int is_lost) {
    for (lucky_image_file *f = all->files; f < all->files + LUCKY_IMAGE_FILES; f++) {
        if (!f->used || f->retired || f->sink != sink) continue;
        if (is_lost) lucky_image_file_remove(f);
        else f->retired = 1;
    }
    lucky_images_sweep(all);
}

/* The client is gone. */
static inline void lucky_images_clear(lucky_images *all) {
    for (lucky_image_file *f = all->files; f < all->files + LUCKY_IMAGE_FILES; f++)
        if (f->used) lucky_image_file_remove(f);
}

/* 0 while the client holds so many images of the stream that it does not read the next one soon. */
static inline int lucky_images_have_room(const lucky_images *all, uint64_t sink) {
    uint32_t out = 0;
    for (const lucky_image_file *f = all->files; f < all->files + LUCKY_IMAGE_FILES; f++)
        if (f->used && !f->retired && f->sink == sink) out += lucky_slots_out(f);
    return out < LUCKY_IMAGE_SLOTS;
}

/* A file of that many bytes per slot; NULL when there are too many or no memory. */
static inline lucky_image_file *lucky_image_file_make(lucky_images *all, uint64_t sink, uint64_t least_bytes) {
    lucky_image_file *f = all->files;
    lucky_error ignored;
    char path[LUCKY_PATH_BYTES + 24];
    lucky_images_sweep(all);
    while (f < all->files + LUCKY_IMAGE_FILES && f->used) f++;
    if (f == all->files + LUCKY_IMAGE_FILES) return NULL;
    uint64_t slot_bytes = (least_bytes + LUCKY_IMAGE_PAGE - 1) / LUCKY_IMAGE_PAGE * LUCKY_IMAGE_PAGE;
    int made = 0;
    for (int tries = 0; !made && tries < 64; tries++) {
        snprintf(path, sizeof path, "%s.images.%u", all->segment, ++all->last_file);
        if (strlen(path) < LUCKY_PATH_BYTES)
            made = lucky_map_new(&f->mapping, path, LUCKY_IMAGE_PAGE + LUCKY_IMAGE_SLOTS * slot_bytes, &ignored);
        else made = -1;
    }
    if (made <= 0) return NULL;
    const uint32_t head[4] = {LUCKY_IMAGES_MAGIC, LUCKY_IMAGES_VERSION, LUCKY_IMAGE_SLOTS, 0};
    memcpy(f->mapping.start, head, sizeof head);
    memcpy(f->mapping.start + 16, &slot_bytes, 8);
    LUCKY_FAULT("image.file");
    f->slot_bytes = slot_bytes;
    f->sink = sink;
    f->file = all->last_file;
    f->used = 1;
    f->retired = 0;
    return f;
}

/* Copy an image into a free slot and hand that to the client, which learns of it by the message. The place has file 0 when
 * there is none: then the image stays in its message. */
static inline lucky_image_place lucky_images_post(lucky_images *all, uint64_t sink, const void *image, uint64_t length) {
    lucky_image_place place = {0, 0, 0, 0, 0};
    lucky_image_file *in = NULL;
    lucky_error ignored;
    uint32_t slot = 0;
    for (lucky_image_file *f = all->files; length && !in && f < all->files + LUCKY_IMAGE_FILES; f++) {
        if (!f->used || f->retired || f->sink != sink || f->slot_bytes < length) continue;
        for (slot = 0; slot < LUCKY_IMAGE_SLOTS && lucky_load32(lucky_slot_owner(f, slot)); slot++) {}
        if (slot < LUCKY_IMAGE_SLOTS) in = f;
    }
    if (length && !in && (in = lucky_image_file_make(all, sink, length))) slot = 0;
    if (!in || lucky_map_check(&in->mapping, &ignored)) return place;
    all->last_number = all->last_number >= UINT32_MAX - 3 ? 2 : all->last_number + 2;
    __atomic_store_n(lucky_slot_word(in, slot, 0), all->last_number - 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the odd number is there before the first byte */
    LUCKY_FAULT("image.taken");
    lucky_copy(in->mapping.start + LUCKY_IMAGE_PAGE + slot * in->slot_bytes, image, length, "image.half");
    LUCKY_FAULT("image.written");
    lucky_store32(lucky_slot_word(in, slot, 0), all->last_number);
    LUCKY_FAULT("image.numbered");
    lucky_store32(lucky_slot_owner(in, slot), all->last_number);
    LUCKY_FAULT("image.handed_over");
    place.length = length;
    place.file = in->file;
    place.slot = slot;
    place.number = all->last_number;
    return place;
}

/* Take back places that are not sent after all. */
static inline void lucky_images_take_back(lucky_images *all, const lucky_image_place *places, uint32_t count) {
    for (; count--; places++)
        for (lucky_image_file *f = all->files; f < all->files + LUCKY_IMAGE_FILES; f++)
            if (f->used && f->file == places->file) lucky_store32(lucky_slot_owner(f, places->slot), 0);
}

#endif
