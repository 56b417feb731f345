/* Keys of a block's rows: as the bytes that tell them apart, and their hashes. */

#ifndef ELF_TREE_KEYS_H
#define ELF_TREE_KEYS_H

#include "tree.h"

#define DIGITS_MAX 20

typedef struct {
    const u8 *start;
    u32 length; /* NULL_KEY: NULL */
    u64 hash;
} RowKey;

static inline u8 *put_u32(u8 *to, u32 value) {
    memcpy(to, &value, 4);
    return to + 4;
}

static inline u8 *put_digits(u8 *to, i64 value) {
    u8 digits[DIGITS_MAX];
    int count = 0;
    u64 rest = value < 0 ? (u64)0 - (u64)value : (u64)value;
    if (value < 0) *to++ = '-';
    do {
        digits[count++] = (u8)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    while (count) *to++ = digits[--count];
    return to;
}

/* Writes a text as JSON has it, in at most 6 bytes for each of its own and two more. */
static inline u8 *put_json(u8 *to, const u8 *p, i64 length) {
    static const char hex[] = "0123456789abcdef";
    *to++ = '"';
    for (const u8 *end = p + length; p < end; p++) {
        u8 c = *p;
        if (c >= ' ' && c != '"' && c != '\\') {
            *to++ = c;
            continue;
        }
        *to++ = '\\';
        switch (c) {
        case '\b': *to++ = 'b'; break;
        case '\t': *to++ = 't'; break;
        case '\n': *to++ = 'n'; break;
        case '\f': *to++ = 'f'; break;
        case '\r': *to++ = 'r'; break;
        case '"': case '\\': *to++ = c; break;
        default:
            memcpy(to, "u00", 3);
            to[3] = (u8)hex[c >> 4];
            to[4] = (u8)hex[c & 15];
            to += 5;
        }
    }
    *to++ = '"';
    return to;
}

/* Writes the canonical JSON text of a value that is there; NULL if it has no room before `end`, or no such text here. */
static inline u8 *put_value(u8 *to, const u8 *end, const Column *column, i64 row) {
    Text text;
    switch (column->format) {
    case 'v':
        if (!text_at(column->array, row, &text) || (end - to) / 6 < text.length + 1) return NULL;
        return put_json(to, text.start, text.length);
    case 'l':
        return end - to > DIGITS_MAX ? put_digits(to, integer_at(column->array, row)) : NULL;
    case 'b':
        if (end - to < 5) return NULL;
        memcpy(to, truth_at(column->array, row) ? "true\0" : "false", 5);
        return to + (truth_at(column->array, row) ? 4 : 5);
    default:
        return NULL;
    }
}

static inline int has_value(const Column *column, i64 row) { return column->format != 'n' && is_valid(column->array, row); }

/* Writes one column of a key of several, and adds it to the hash; NULL if it has no room before `end`. */
static inline u8 *put_part(u8 *to, const u8 *end, const Column *column, i64 row, u64 seed, u64 *hash) {
    int there = has_value(column, row);
    u64 element = NULL_ELEMENT;
    if (column->stored <= STORED_JSON) {
        u8 *text = to + 4;
        if (end - to < 4) return NULL;
        if (!there) {
            to = put_u32(to, NULL_KEY);
        } else if (column->stored == STORED_JSON) {
            u8 *after = put_value(text, end, column, row);
            if (!after) return NULL;
            put_u32(to, (u32)(after - text));
            to = after;
        } else {
            Text own;
            if (column->format != 'v' || !text_at(column->array, row, &own) || end - text < own.length) return NULL;
            put_u32(to, (u32)own.length);
            memcpy(text, own.start, (size_t)own.length);
            to = text + own.length;
        }
        if (there) element = xxh3(text, (u64)(to - text), seed);
    } else if (column->stored == STORED_INTEGER) {
        i64 value = there ? integer_at(column->array, row) : 0;
        if (end - to < 9) return NULL;
        *to = (u8)there;
        memcpy(to + 1, &value, 8);
        to += 9;
        if (there) element = mixed((u64)value);
    } else {
        int value = there ? truth_at(column->array, row) : 0;
        if (end - to < 1) return NULL;
        *to++ = (u8)(there + value);
        if (there) element = mixed((u64)value);
    }
    *hash = mixed(*hash ^ element);
    return to;
}

/* The key of a row. What has to be written goes to `*scratch`, which moves on; returns 0 if it has no room there. */
static inline int read_key(const Block *block, i64 row, u8 **scratch, RowKey *key) {
    const Column *keys = block->keys;
    u8 *to = *scratch;
    const u8 *end = block->scratch + block->scratch_bytes;
    if (is_bare(keys, block->keys_count)) {
        u64 element = NULL_ELEMENT;
        key->length = NULL_KEY;
        key->start = to;
        if (has_value(keys, row)) {
            if (keys->stored == STORED_JSON) {
                if (!(to = put_value(to, end, keys, row))) return 0;
                key->length = (u32)(to - *scratch);
            } else {
                Text text;
                if (keys->format != 'v' || !text_at(keys->array, row, &text)) return 0;
                key->start = text.start;
                key->length = (u32)text.length;
            }
            element = xxh3(key->start, key->length, block->seed);
        }
        key->hash = mixed(block->seed ^ element);
    } else {
        key->hash = block->keys_count ? block->seed : 0;
        for (i64 i = 0; i < block->keys_count; i++)
            if (!(to = put_part(to, end, &keys[i], row, block->seed, &key->hash))) return 0;
        key->start = *scratch;
        key->length = (u32)(to - *scratch);
    }
    *scratch = to;
    return 1;
}

#endif
