/* Keyed elements: the hashes of keys, the slots of keys in a table, and aggregates whose value after each row is told. */

#include "keys.h"

/* The public hashes of a block's keys. Returns the row of the first key that has no room in the scratch. */
EXPORTED i64 elf_key_hashes(Block *block, u64 *hashes) {
    for (; block->row < block->rows; block->row++) {
        u8 *scratch = block->scratch;
        RowKey key;
        if (!read_key(block, block->row, &scratch, &key)) break;
        hashes[block->row] = key.hash;
    }
    return block->row;
}

/* The same hashes' upper bits alone. */
EXPORTED i64 elf_key_places(Block *block, i32 bits, u16 *places) {
    for (; block->row < block->rows; block->row++) {
        u8 *scratch = block->scratch;
        RowKey key;
        if (!read_key(block, block->row, &scratch, &key)) break;
        places[block->row] = (u16)(key.hash >> (64 - bits));
    }
    return block->row;
}

/* The identities of a block's keys: 128 bits under a secret of two words. A key that is NULL has a word of its own after
 * it, as no other key of its length has. */
EXPORTED i64 elf_key_identities(Block *block, const u64 *secret, u64 *hashes, u64 *checks) {
    for (; block->row < block->rows; block->row++) {
        u8 *scratch = block->scratch;
        RowKey key;
        u64 v[4];
        if (!read_key(block, block->row, &scratch, &key)) break;
        sip_begin(v, secret[0], secret[1]);
        v[1] ^= 0xEE;
        sip_bytes(v, key.start, bytes_of(key.length));
        if (key.length == NULL_KEY) sip_word(v, NULL_ELEMENT);
        sip_pair(v, &hashes[block->row], &checks[block->row]);
    }
    return block->row;
}

/* Gives slots from `next` on to identities that have none, which are -1 in `slots`. The index has room for all of them.
 * Returns how many are new, and the row of each. */
EXPORTED i64 elf_slots_add(i32 *index, u64 mask, u64 *known, u64 *other, const u64 *hashes, const u64 *checks, i64 count,
                           i64 *slots, i64 next, i64 *rows) {
    i64 added = 0;
    for (i64 i = 0; i < count; i++) {
        u64 place = hashes[i] & mask;
        i32 slot;
        if (slots[i] >= 0) continue;
        while ((slot = index[place]) >= 0 && (known[slot] != hashes[i] || other[slot] != checks[i]))
            place = (place + 1) & mask;
        if (slot < 0) {
            slot = (i32)(next + added);
            index[place] = slot;
            known[slot] = hashes[i];
            other[slot] = checks[i];
            rows[added++] = i;
        }
        slots[i] = slot;
    }
    return added;
}

/* The places of rows whose number is higher than the last of their channel's line and node, which it becomes. */
EXPORTED i64 elf_fresh(const i32 *lines, const i16 *nodes, const i64 *numbers, i64 count, i64 width, i64 *last,
                       u8 *changed, i64 *places) {
    i64 found = 0;
    for (i64 i = 0; i < count; i++) {
        i64 at = lines[i] * width + nodes[i];
        if (numbers[i] <= last[at]) continue;
        last[at] = numbers[i];
        changed[at] = 1;
        places[found++] = i;
    }
    return found;
}

/* Numbers events in the channels of their nodes, from `next` on, by a step of 2**`shift`. A channel is the node's number
 * above that of `channel`. */
EXPORTED void elf_number(const u16 *nodes, i64 count, i64 channel, i64 *next, i32 shift, i64 *channels, i64 *numbers) {
    for (i64 i = 0; i < count; i++) {
        channels[i] = channel | nodes[i];
        numbers[i] = (i64)((u64)next[nodes[i]]++ << shift);
    }
}

/* The slots of identities, -1 where there is none. The index has a slot, or -1, at the place of a hash or a place after
 * it, and as many places as `mask` and one. */
EXPORTED void elf_slots_find(const i32 *index, u64 mask, const u64 *known, const u64 *other, const u64 *hashes,
                             const u64 *checks, i64 count, i64 *slots) {
    for (i64 i = 0; i < count; i++) {
        u64 place = hashes[i] & mask;
        i32 slot;
        if (i + FAR_AHEAD < count) __builtin_prefetch(&index[hashes[i + FAR_AHEAD] & mask]);
        if (i + AHEAD < count) {
            i32 next = index[hashes[i + AHEAD] & mask];
            if (next >= 0) {
                __builtin_prefetch(&known[next]);
                __builtin_prefetch(&other[next]);
            }
        }
        while ((slot = index[place]) >= 0 && (known[slot] != hashes[i] || other[slot] != checks[i]))
            place = (place + 1) & mask;
        slots[i] = slot;
    }
}

static inline int counts_here(const u8 *valid, i64 row) { return !valid || valid[row]; }

/* Rows of some slots, their values, and which of these are not NULL (NULL: all); `n` counts those of each slot, and
 * `n_out` is that count after each row. */
typedef struct {
    const i64 *slots;
    const void *values;
    const u8 *valid;
    i64 count;
    i64 *n, *n_out;
} Fold;

EXPORTED void elf_fold_counts(const Fold *fold) {
    for (i64 i = 0; i < fold->count; i++) {
        i64 *n = &fold->n[fold->slots[i]];
        *n += counts_here(fold->valid, i);
        fold->n_out[i] = *n;
    }
}

/* Sums of integers, as counts of 2**32 and of what is below that. */
EXPORTED void elf_fold_integers(const Fold *fold, i64 *high, i64 *low, i64 *high_out, i64 *low_out) {
    const i64 *values = fold->values;
    for (i64 i = 0; i < fold->count; i++) {
        i64 slot = fold->slots[i];
        if (counts_here(fold->valid, i)) {
            i64 sum = low[slot] + (values[i] & 0xFFFFFFFF);
            high[slot] += (values[i] >> 32) + (sum >> 32);
            low[slot] = sum & 0xFFFFFFFF;
            fold->n[slot]++;
        }
        high_out[i] = high[slot];
        low_out[i] = low[slot];
        fold->n_out[i] = fold->n[slot];
    }
}

EXPORTED void elf_fold_doubles(const Fold *fold, double *sums, double *out) {
    const double *values = fold->values;
    for (i64 i = 0; i < fold->count; i++) {
        i64 slot = fold->slots[i];
        if (counts_here(fold->valid, i)) {
            sums[slot] += values[i];
            fold->n[slot]++;
        }
        out[i] = sums[slot];
        fold->n_out[i] = fold->n[slot];
    }
}

static inline int integer_wins(i64 value, i64 best, int greatest) { return greatest ? value > best : value < best; }

/* NaN is greater than all numbers. */
static inline int double_wins(double value, double best, int greatest) {
    if (value != value) return greatest;
    if (best != best) return !greatest;
    return greatest ? value > best : value < best;
}

#define EXTREMES(name, type, wins)                                                             \
    EXPORTED void name(const Fold *fold, type *best, i32 greatest, type *out) {                \
        const type *values = fold->values;                                                     \
        for (i64 i = 0; i < fold->count; i++) {                                                \
            i64 slot = fold->slots[i];                                                         \
            if (counts_here(fold->valid, i)) {                                                 \
                if (!fold->n[slot]++ || wins(values[i], best[slot], greatest)) best[slot] = values[i]; \
            }                                                                                  \
            out[i] = best[slot];                                                               \
            fold->n_out[i] = fold->n[slot];                                                    \
        }                                                                                      \
    }

EXTREMES(elf_fold_integer_extremes, i64, integer_wins)
EXTREMES(elf_fold_double_extremes, double, double_wins)
