/* Texts that leave the tree as an array of Arrow, which whoever takes it owns. */

#include "tree.h"
#include <stdlib.h>

#define VIEW_BYTES 16
#define INLINE_TEXT 12

struct Schema {
    const char *format, *name, *metadata;
    i64 flags, n_children;
    struct Schema **children, *dictionary;
    void (*release)(struct Schema *);
    void *private_data;
};

static void release_schema(struct Schema *schema) { schema->release = NULL; }

static void release_array(Array *array) {
    for (i64 i = 0; i < array->n_buffers; i++) free((void *)array->buffers[i]);
    free(array->buffers);
    array->release = NULL;
}

static void put_view(u8 *view, const u8 *text, i64 length, i64 offset) {
    i32 place[2] = {0, (i32)offset}, size = (i32)length;
    memset(view, 0, VIEW_BYTES);
    memcpy(view, &size, 4);
    if (length <= INLINE_TEXT) {
        memcpy(view + 4, text, (size_t)length);
        return;
    }
    memcpy(view + 4, text, 4);
    memcpy(view + 8, place, 8);
}

/* Makes the Arrow array of some rows' texts, of all from 0 on if `rows` is NULL; their bytes end at `ends`, those that
 * `valid` does not name are NULL. Returns 0 for lack of memory, or for more bytes than a view leads to. */
EXPORTED i32 elf_texts(const u8 *text, const i64 *ends, const u8 *valid, const i64 *rows, i64 count, Array *array,
                       struct Schema *schema) {
    i64 bytes = 0, nulls = 0, at = 0;
    u8 *bits, *views, *data;
    const void **buffers;
    for (i64 i = 0; i < count; i++) {
        i64 row = rows ? rows[i] : i, length = ends[row] - (row ? ends[row - 1] : 0);
        if (length > INLINE_TEXT) bytes += length;
    }
    if (bytes > INT32_MAX) return 0;
    buffers = calloc(4, sizeof *buffers);
    if (!buffers) return 0;
    memset(array, 0, sizeof *array);
    memset(schema, 0, sizeof *schema);
    array->buffers = buffers;
    array->n_buffers = 4;
    array->length = count;
    array->release = release_array;
    buffers[0] = bits = calloc((size_t)(count / 8 + 1), 1);
    buffers[1] = views = malloc((size_t)count * VIEW_BYTES + 1);
    buffers[2] = data = malloc((size_t)bytes + 1);
    buffers[3] = malloc(sizeof bytes);
    if (!bits || !views || !data || !buffers[3]) {
        release_array(array);
        return 0;
    }
    memcpy((void *)buffers[3], &bytes, sizeof bytes);
    for (i64 i = 0; i < count; i++) {
        i64 row = rows ? rows[i] : i, start = row ? ends[row - 1] : 0, length = ends[row] - start;
        int there = !valid || valid[row];
        if (rows && i + AHEAD < count) __builtin_prefetch(text + ends[rows[i + AHEAD]]);
        bits[i / 8] |= (u8)(there << (i % 8));
        nulls += !there;
        put_view(views + i * VIEW_BYTES, text + start, length, at);
        if (length > INLINE_TEXT) {
            memcpy(data + at, text + start, (size_t)length);
            at += length;
        }
    }
    array->null_count = nulls;
    schema->format = "vu";
    schema->name = "";
    schema->flags = 2;
    schema->release = release_schema;
    return 1;
}
