/* The keys that came to a leaf last, which wait to be compressed. */

#ifndef ELF_TREE_TAIL_H
#define ELF_TREE_TAIL_H

#include "tree.h"
#include <stdlib.h>

/* Texts one after the other, and their lengths; NULL_KEY: NULL. */
typedef struct {
    u8 *text;
    u32 *lengths;
    i64 bytes, count;
} Tail;

/* Texts by rows: each ends at `ends`; those that `valid` does not name are NULL. */
typedef struct {
    const u8 *text;
    const i64 *ends;
    const u8 *valid;
} Texts;

static inline i64 start_of(const Texts *texts, i64 row) { return row ? texts->ends[row - 1] : 0; }

static inline i64 length_of(const Texts *texts, i64 row) { return texts->ends[row] - start_of(texts, row); }

/* The row of the i-th text: of those of `rows` that `which` names, or of all. */
static inline i64 row_of(const i64 *rows, const i64 *which, i64 i) { return rows[which ? which[i] : i]; }

/* Copies texts, one after the other. */
static void copy_texts(const Texts *texts, const i64 *rows, const i64 *which, i64 count, u8 *to) {
    for (i64 i = 0; i < count; i++) {
        i64 row = row_of(rows, which, i), length = length_of(texts, row);
        memcpy(to, texts->text + start_of(texts, row), (size_t)length);
        to += length;
    }
}

static int append_keys(Tail *tail, const Texts *texts, const i64 *rows, const i64 *which, i64 count) {
    i64 bytes = 0;
    u8 *text;
    u32 *lengths;
    if (!count) return 1;
    for (i64 i = 0; i < count; i++) bytes += length_of(texts, row_of(rows, which, i));
    if ((text = realloc(tail->text, (size_t)(tail->bytes + bytes) + 1))) tail->text = text;
    if ((lengths = realloc(tail->lengths, (size_t)(tail->count + count) * sizeof *lengths))) tail->lengths = lengths;
    if (!text || !lengths) return 0;
    for (i64 i = 0; i < count; i++) {
        i64 row = row_of(rows, which, i);
        lengths[tail->count + i] = !texts->valid || texts->valid[row] ? (u32)length_of(texts, row) : NULL_KEY;
    }
    copy_texts(texts, rows, which, count, text + tail->bytes);
    tail->bytes += bytes;
    tail->count += count;
    return 1;
}

static void release_tail(Tail *tail) {
    free(tail->text);
    free(tail->lengths);
    memset(tail, 0, sizeof *tail);
}

#endif
