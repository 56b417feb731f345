/* The memory that the tree's kernel works in: all of it is the caller's, but that of leaves and of texts that leave. */

#ifndef ELF_TREE_H
#define ELF_TREE_H

#include "hashes.h"

#define EXPORTED __attribute__((visibility("default")))
#define ABI 5
#define CHUNK_ROWS 256
#define PROBES_MAX 256
#define INLINE_KEY 16
#define NULL_KEY UINT32_MAX
#define LIMB_BITS 56
#define AHEAD 8 /* rows to fetch ahead */
#define FAR_AHEAD 32 /* the same of slots, of which at least half are empty */

typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef __int128 i128;

/* Arrow's C data interface: https://arrow.apache.org/docs/format/CDataInterface.html */
typedef struct Array {
    i64 length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct Array **children, *dictionary;
    void (*release)(struct Array *);
    void *private_data;
} Array;

/* How a key column is stored: as the text, number or truth it is, or as the canonical JSON text of it. */
enum stored { STORED_TEXT, STORED_JSON, STORED_INTEGER, STORED_BOOLEAN };

/* A column of a block. `format` is Arrow's: n null, b boolean, l integer, g double, v views of texts. */
typedef struct {
    const Array *array;
    i32 format, stored;
} Column;

/* What a block's column adds to a group's state, in `words` of 64 bits from `word` on. */
enum operation {
    COUNT_ROWS,     /* 1 word */
    COUNT_VALUES,   /* 1 */
    SUM_INTEGERS,   /* 2: a number of 128 bits */
    SUM_UNITS,      /* 2: the same, in units of 2**-32 */
    SUM_DOUBLES,    /* 4: two such numbers, in units of 2**-32 and of 2**-128 */
    LEAST, GREATEST, /* 2: whether there is a value, and the greatest rank; of LEAST the ranks are inverted */
    SUM_SQUARES,      /* 4: of integers, as counts of 2**72 and of 1 */
    SUM_UNIT_SQUARES, /* 4: the same, as counts of 2**32 and of 2**-64 */
    SUM_DOUBLE_SQUARES /* 8: of doubles, as counts of 2**32, 2**-64, 2**-160 and 2**-256 */
};

typedef struct {
    i32 operation, word;
    Column column;
} Source;

/* A group in the root: `pane` is the number of its pane. A key of at most INLINE_KEY bytes is in `key`, a longer one in
 * the arena, at `key[0]`. The state's words follow. */
typedef struct {
    u64 hash;
    u32 pane, length;
    u64 key[2];
} Entry;

/* The root: a hash table of groups. A slot holds the upper half of an entry's hash, and below it the entry's number
 * and one; 0 is an empty slot. Slots are in the order of hashes, so that groups leave in it; all have
 * the same `skipped_bits` on top. */
typedef struct {
    u64 *slots;
    u8 *entries, *arena;
    i64 *panes;
    i64 slot_bits, entries_max, stride, arena_bytes, panes_max;
    i64 used, arena_used, panes_used;
    i64 skipped_bits;
    i64 rows; /* that are in it */
} Root;

/* Rows to insert: those from `row` to `rows` whose hashes are in `half`: 0 any, 1 the lower ones, 2 the upper ones. */
typedef struct {
    const Column *keys;
    const Source *sources;
    const Array *panes;
    u8 *scratch;
    i64 keys_count, sources_count, scratch_bytes;
    u64 seed;
    i64 row, rows, half;
} Block;

enum status { DONE, FULL, CROWDED, UNFIT };

typedef struct {
    const u8 *start;
    i64 length; /* -1: NULL */
} Text;

static inline int is_valid(const Array *array, i64 row) {
    const u8 *bits = array->buffers[0];
    row += array->offset;
    return !bits || (bits[row >> 3] >> (row & 7) & 1);
}

static inline int truth_at(const Array *array, i64 row) {
    row += array->offset;
    return ((const u8 *)array->buffers[1])[row >> 3] >> (row & 7) & 1;
}

static inline i64 integer_at(const Array *array, i64 row) { return ((const i64 *)array->buffers[1])[array->offset + row]; }

static inline double double_at(const Array *array, i64 row) {
    return ((const double *)array->buffers[1])[array->offset + row];
}

/* Reads a text; returns 0 if its view leads outside the column's buffers. */
static inline int text_at(const Array *array, i64 row, Text *text) {
    const u8 *view = (const u8 *)array->buffers[1] + 16 * (array->offset + row);
    i32 length, buffer, offset;
    if (!is_valid(array, row)) {
        text->start = view;
        text->length = -1;
        return 1;
    }
    memcpy(&length, view, 4);
    text->length = length;
    if (length <= 12) {
        text->start = view + 4;
        return length >= 0;
    }
    memcpy(&buffer, view + 8, 4);
    memcpy(&offset, view + 12, 4);
    if (buffer < 0 || buffer >= array->n_buffers - 3 || offset < 0) return 0;
    if ((i64)offset + length > ((const i64 *)array->buffers[array->n_buffers - 1])[buffer]) return 0;
    text->start = (const u8 *)array->buffers[2 + buffer] + offset;
    return 1;
}

static inline Entry *entry_of(const Root *root, i64 number) { return (Entry *)(root->entries + number * root->stride); }

static inline u64 *words_of(Entry *entry) { return (u64 *)(entry + 1); }

static inline const u8 *arena_key(const Root *root, const Entry *entry) { return root->arena + entry->key[0]; }

/* Keys as one run of bytes: a single text is itself; of several columns, an integer is a mark and 8 bytes, a truth one
 * byte, a text its length in 4 bytes and its bytes. 0 marks NULL, and the length NULL_KEY. */

static inline u32 bytes_of(u32 length) { return length == NULL_KEY ? 0 : length; }

/* A key of at most 16 bytes in two words, which with its length are the key. */
static inline void pack(const u8 *p, u32 length, u64 *words) {
    words[0] = words[1] = 0;
    if (length >= 8) {
        words[0] = load64(p);
        words[1] = load64(p + length - 8);
    } else if (length >= 4) {
        words[0] = load32(p);
        words[1] = load32(p + length - 4);
    } else {
        for (u32 i = 0; i < length; i++) words[0] |= (u64)p[i] << (8 * i);
    }
}

/* What tells keys apart that share a hash: 32 bits under the process's secret of 8 words. Of two short keys it is the
 * same with 1 in 2**32, whatever they are, since it is a sum of products (multilinear hashing); of long ones it is half of
 * a SipHash. */

static inline u32 check_of_words(const u64 *words, u32 length, const u64 *secret) {
    u64 sum = secret[0] + secret[1] * (u32)words[0] + secret[2] * (words[0] >> 32) + secret[3] * (u32)words[1];
    return (u32)((sum + secret[4] * (words[1] >> 32) + secret[5] * length) >> 32);
}

static inline u32 check_of(const u8 *key, u32 length, const u64 *secret) {
    u64 words[2];
    if (bytes_of(length) > INLINE_KEY) return (u32)(keyed_hash(key, length, secret[6], secret[7]) >> 32);
    pack(key, bytes_of(length), words);
    return check_of_words(words, length, secret);
}

static inline int is_bare(const Column *keys, i64 count) { return count == 1 && keys->stored <= STORED_JSON; }

#endif
