/* Leaves: finds keys, inserts new ones, adds to states in place. */

#include "keys.h"

/* The checks of a block's keys, stored as they are. Returns the row of the first key that has no room in the scratch. */
EXPORTED i64 elf_checks(Block *block, const u64 *secret, u32 *checks) {
    for (; block->row < block->rows; block->row++) {
        u8 *scratch = block->scratch;
        RowKey key;
        if (!read_key(block, block->row, &scratch, &key)) break;
        checks[block->row] = check_of(key.start, key.length, secret);
    }
    return block->row;
}

typedef struct {
    const u64 *hashes;
    const u32 *checks;
    const void *slots;
    i64 count, slot_bytes;
} Index;

static inline u32 slot_at(const void *slots, i64 bytes, i64 at) {
    return bytes == 2 ? ((const uint16_t *)slots)[at] : ((const u32 *)slots)[at];
}

/* The first of `count` places from `low` on with a hash that is not lower. Takes no branches. */
static inline i64 lower_bound(const u64 *hashes, i64 low, i64 count, u64 hash) {
    while (count > 1) {
        i64 half = count / 2;
        low = hashes[low + half - 1] < hash ? low + half : low;
        count -= half;
    }
    return low + (count == 1 && hashes[low] < hash);
}

/* The first place with a hash that is not lower, likely no further than `reach` from `guess`. */
static inline i64 place_of(const u64 *hashes, i64 count, i64 guess, i64 reach, u64 hash) {
    i64 first = guess - reach, last = guess + reach;
    if (first < 0) first = 0;
    if (last > count) last = count;
    if (first >= last || (first > 0 && hashes[first - 1] >= hash) || (last < count && hashes[last] < hash)) {
        first = 0;
        last = count;
    }
    return lower_bound(hashes, first, last - first, hash);
}

/* Looks up `count` identities, whose hashes ascend, and which are the rows `rows`, or all from 0 on if that is NULL.
 * Writes those that are there with their slots, and from the other end on, backwards, those that are not, with the places
 * where they belong. Returns how many are there. */
EXPORTED i64 elf_find(const Index *index, const u64 *hashes, const u32 *checks, const i64 *rows, i64 count, i64 *found,
                      i64 *slots, i64 *others, i64 *places) {
    i64 there = 0, absent = 0, last = index->count - 1, place = 0, anchor_place = 0, reach = 8;
    u64 anchor = last >= 0 ? index->hashes[0] : 0;
    double density = last > 0 && index->hashes[last] > anchor ? (double)last / (double)(index->hashes[last] - anchor) : 0;
    for (i64 i = 0; i < count; i++) {
        i64 row = rows ? rows[i] : i, guess;
        u64 hash = hashes[row];
        if (i % AHEAD == 0 && i) { /* guessed from every eighth place, so that look-ups need not wait for each other */
            i64 far;
            anchor_place = place;
            anchor = hashes[rows ? rows[i - 1] : i - 1];
            far = i + AHEAD < count ? i + AHEAD : count - 1;
            far = (i64)((double)(hashes[rows ? rows[far] : far] - anchor) * density);
            for (reach = 8; reach * reach < 4 * far && reach < index->count;) reach *= 2;
        }
        guess = anchor_place + (hash > anchor ? (i64)((double)(hash - anchor) * density) : 0);
        place = place_of(index->hashes, index->count, guess, reach, hash);
        i64 at = place;
        while (at < index->count && index->hashes[at] == hash && index->checks[at] != checks[row]) at++;
        if (at < index->count && index->hashes[at] == hash) {
            found[there] = row;
            slots[there++] = slot_at(index->slots, index->slot_bytes, at);
        } else {
            others[absent] = row;
            places[absent++] = at;
        }
    }
    return there;
}

/* Merges identities into an index at the places that were found for them. Their slots are `new_slots`, or if that has no
 * slots the next ones from `first_slot` on. */
EXPORTED void elf_merge(const Index *index, const u64 *hashes, const u32 *checks, const i64 *rows, const i64 *places,
                        i64 count, const Index *new_slots, i64 first_slot, u64 *to_hashes, u32 *to_checks, void *to_slots, i64 slot_bytes) {
    i64 from = 0, to = 0;
    for (i64 i = 0; i <= count; i++) {
        i64 end = i < count ? places[i] : index->count, length = end - from;
        memcpy(to_hashes + to, index->hashes + from, (size_t)length * 8);
        memcpy(to_checks + to, index->checks + from, (size_t)length * 4);
        if (slot_bytes == index->slot_bytes) {
            memcpy((u8 *)to_slots + to * slot_bytes, (const u8 *)index->slots + from * slot_bytes,
                   (size_t)(length * slot_bytes));
        } else {
            for (i64 k = 0; k < length; k++)
                ((u32 *)to_slots)[to + k] = slot_at(index->slots, index->slot_bytes, from + k);
        }
        from = end;
        to += length;
        if (i == count) break;
        i64 slot = new_slots->slots ? slot_at(new_slots->slots, new_slots->slot_bytes, rows[i]) : first_slot + i;
        to_hashes[to] = hashes[rows[i]];
        to_checks[to] = checks[rows[i]];
        if (slot_bytes == 2) {
            ((uint16_t *)to_slots)[to] = (uint16_t)slot;
        } else {
            ((u32 *)to_slots)[to] = (u32)slot;
        }
        to++;
    }
}

/* The greatest magnitude of the states of some rows; 2**63 - 1 stands for all above. */
EXPORTED i64 elf_most(const i64 *states, const i64 *rows, i64 count) {
    i64 most = 0;
    for (i64 i = 0; i < count; i++) {
        i64 state = states[rows[i]];
        if (state < 0) state = state == INT64_MIN ? INT64_MAX : -state;
        if (state > most) most = state;
    }
    return most;
}

/* Adds `states[rows[i]]` to `values[slots[i]]`, which are integers of `bytes` bytes. */
EXPORTED void elf_add(void *values, i64 bytes, const i64 *slots, const i64 *rows, i64 count, const i64 *states) {
    switch (bytes) {
    case 1:
        for (i64 i = 0; i < count; i++) ((u8 *)values)[slots[i]] += (u8)states[rows[i]];
        break;
    case 2:
        for (i64 i = 0; i < count; i++) ((uint16_t *)values)[slots[i]] += (uint16_t)states[rows[i]];
        break;
    case 4:
        for (i64 i = 0; i < count; i++) ((u32 *)values)[slots[i]] += (u32)states[rows[i]];
        break;
    default:
        for (i64 i = 0; i < count; i++) ((u64 *)values)[slots[i]] += (u64)states[rows[i]];
    }
}

/* Copies the texts of some rows, one after the other, from all of them, whose ends are given. */
EXPORTED void elf_gather(const u8 *text, const i64 *ends, const i64 *rows, i64 count, u8 *to) {
    for (i64 i = 0; i < count; i++) {
        i64 start = rows[i] ? ends[rows[i] - 1] : 0, length = ends[rows[i]] - start;
        memcpy(to, text + start, (size_t)length);
        to += length;
    }
}
