/* The states of a leaf's keys by slot, in parts: arrays of integers as narrow as their values allow. */

#ifndef ELF_TREE_STATES_H
#define ELF_TREE_STATES_H

#include "tree.h"
#include <stdlib.h>

#define LIMB_MASK (((i64)1 << LIMB_BITS) - 1)

/* How a part of states is merged: sums that carry into the next part, or into none; the least or greatest rank, or
 * whether any is there. */
enum merging { SUM, LAST_SUM, LEAST_RANK, GREATEST_RANK, ANY };

/* One part of the states of all keys; NULL: neutral throughout. No sum is further from 0 than `bound`. */
typedef struct {
    void *values;
    i64 bytes, bound, merging;
} Part;

static inline int is_sum(const Part *part) { return part->merging <= LAST_SUM; }

static inline i64 most_of_bytes(i64 bytes) { return (i64)(UINT64_MAX >> (65 - 8 * bytes)); }

static inline i64 value_at(const Part *part, i64 slot) {
    switch (part->bytes) {
    case 1: return ((const int8_t *)part->values)[slot];
    case 2: return ((const int16_t *)part->values)[slot];
    case 4: return ((const i32 *)part->values)[slot];
    default: return ((const i64 *)part->values)[slot];
    }
}

static inline void put_value_at(void *values, i64 bytes, i64 slot, i64 value) {
    switch (bytes) {
    case 1: ((u8 *)values)[slot] = (u8)value; break;
    case 2: ((uint16_t *)values)[slot] = (uint16_t)value; break;
    case 4: ((u32 *)values)[slot] = (u32)value; break;
    default: ((u64 *)values)[slot] = (u64)value;
    }
}

/* The magnitude of a number; 2**63 - 1 stands for one above. */
static inline i64 magnitude_of(i64 value) { return value >= 0 ? value : value == INT64_MIN ? INT64_MAX : -value; }

static i64 farthest(const i64 *states, const i64 *rows, i64 count) {
    i64 most = 0;
    for (i64 i = 0; i < count; i++) {
        i64 magnitude = magnitude_of(states[rows[i]]);
        if (magnitude > most) most = magnitude;
    }
    return most;
}

/* Gives a part of `count` keys values, or wider ones, if they need to be as far from 0 as `bound`. */
static int widen_part(Part *part, i64 count, i64 bound) {
    i64 bytes = is_sum(part) ? 1 : part->bytes;
    void *wider;
    if (!part->values) {
        if (!(part->values = malloc((size_t)(count * bytes) + 1))) return 0;
        memset(part->values, part->merging == LEAST_RANK ? 0xFF : 0, (size_t)(count * bytes));
        part->bytes = bytes;
    }
    if (!is_sum(part)) return 1;
    part->bound = bound;
    if (bound <= most_of_bytes(part->bytes)) return 1;
    for (bytes = part->bytes; bytes < 8 && bound > most_of_bytes(bytes);) bytes *= 2;
    if (bytes == part->bytes) return 1;
    if (!(wider = malloc((size_t)(count * bytes) + 1))) return 0;
    for (i64 i = 0; i < count; i++) put_value_at(wider, bytes, i, value_at(part, i));
    free(part->values);
    part->values = wider;
    part->bytes = bytes;
    return 1;
}

static int make_room(Part *part, i64 count, i64 most);

/* Carries what is beyond each limb into the next part; the last wraps as its column would. */
static int carry(Part *part, i64 count) {
    i64 *values = part->values, most = 0;
    if (part->merging == LAST_SUM) return 1;
    for (i64 i = 0; i < count; i++)
        if (magnitude_of(values[i] >> LIMB_BITS) > most) most = magnitude_of(values[i] >> LIMB_BITS);
    if (!make_room(part + 1, count, most)) return 0;
    for (i64 i = 0; i < count; i++) {
        u64 sum = (u64)value_at(part + 1, i) + (u64)(values[i] >> LIMB_BITS);
        put_value_at(part[1].values, part[1].bytes, i, (i64)sum);
        values[i] &= LIMB_MASK;
    }
    return 1;
}

/* Makes room in each sum of a part for one of up to `most` more. */
static int make_room(Part *part, i64 count, i64 most) {
    u64 bound = (u64)part->bound + (u64)most;
    if (part->values && bound > (u64)most_of_bytes(part->bytes)) {
        i64 own = 0;
        for (i64 i = 0; i < count; i++)
            if (magnitude_of(value_at(part, i)) > own) own = magnitude_of(value_at(part, i));
        bound = (u64)own + (u64)most;
    }
    if (bound > INT64_MAX) {
        if (!widen_part(part, count, INT64_MAX) || !carry(part, count)) return 0;
        bound = ((u64)1 << LIMB_BITS) + (u64)most;
    }
    return widen_part(part, count, bound > INT64_MAX ? INT64_MAX : (i64)bound);
}

#define ADD_ALL(type)                                                                                                        \
    for (i64 i = 0; i < found; i++) ((type *)part->values)[slots[i]] += (type)states[rows[i]]

/* Merges the states of some rows into those of some of the `count` slots; NULL: all are neutral. */
static int merge_states(Part *part, i64 count, const void *of_rows, const i64 *slots, const i64 *rows, i64 found) {
    const i64 *states = of_rows;
    if (!of_rows || !found) return 1;
    if (!is_sum(part)) {
        u64 *ranks;
        if (!widen_part(part, count, 0)) return 0;
        ranks = part->values;
        for (i64 i = 0; i < found; i++) {
            if (part->merging == ANY) {
                ((u8 *)part->values)[slots[i]] |= ((const u8 *)of_rows)[rows[i]];
            } else {
                u64 rank = (u64)states[rows[i]], own = ranks[slots[i]];
                ranks[slots[i]] = (part->merging == LEAST_RANK) == (rank < own) ? rank : own;
            }
        }
        return 1;
    }
    if (!make_room(part, count, farthest(states, rows, found))) return 0;
    switch (part->bytes) {
    case 1: ADD_ALL(u8); break;
    case 2: ADD_ALL(uint16_t); break;
    case 4: ADD_ALL(u32); break;
    default: ADD_ALL(u64);
    }
    return 1;
}

/* Adds the states of some rows behind those of `first` keys. */
static int append_states(Part *part, i64 first, const void *of_rows, const i64 *rows, i64 count) {
    const i64 *states = of_rows;
    i64 most = of_rows && is_sum(part) ? farthest(states, rows, count) : 0;
    void *values;
    if (!count || (!of_rows && !part->values)) return 1;
    if (!widen_part(part, first, most > part->bound ? most : part->bound)) return 0;
    if (!(values = realloc(part->values, (size_t)((first + count) * part->bytes)))) return 0;
    part->values = values;
    if (!of_rows) {
        memset((u8 *)values + first * part->bytes, part->merging == LEAST_RANK ? 0xFF : 0, (size_t)(count * part->bytes));
    } else if (part->merging == ANY) {
        for (i64 i = 0; i < count; i++) ((u8 *)values)[first + i] = ((const u8 *)of_rows)[rows[i]];
    } else {
        for (i64 i = 0; i < count; i++) put_value_at(values, part->bytes, first + i, states[rows[i]]);
    }
    return 1;
}

#endif
