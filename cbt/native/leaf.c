/* Leaves: find keys, take new ones, add to states in place. */

#include "keys.h"
#include "states.h"
#include "tail.h"

#define BUCKET_KEYS 16 /* half as many to twice as many keys are in a bucket, if hashes are spread evenly */
#define RECENT_MIN 64
#define RECENT_SHARE 8
#define NARROW_SLOTS 65536
#define LEAF_FIGURES 5

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

/* The hashes of a column's texts, as a key of one column has them. */
EXPORTED void elf_text_hashes(const u8 *text, const i64 *ends, const u8 *valid, i64 count, u64 seed, u64 *hashes) {
    for (i64 i = 0, start = 0; i < count; start = ends[i++]) {
        u64 element = valid && !valid[i] ? NULL_ELEMENT : xxh3(text + start, (u64)(ends[i] - start), seed);
        hashes[i] = mixed(seed ^ element);
    }
}

/* Identities in order, and the slots of their keys. */
typedef struct {
    u64 *ids;
    void *slots;
    i64 count;
} Run;

/* The keys of a leaf, and their states. The upper half of an identity is the place of the key's hash in the leaf's range
 * of hashes, the lower half its check. Recent keys are apart, until they are a share of the others. `buckets` has, for
 * each of 2**bucket_bits parts of the range, the place of the first identity in it that is not recent, and the end. */
typedef struct {
    Run known, recent;
    u32 *buckets;
    u64 low;
    i64 shift, bucket_bits, slot_bytes, parts_count;
    Tail tail;
    Part parts[];
} Leaf;

EXPORTED Leaf *elf_leaf_new(u64 low, i64 shift, const u8 *merging, i64 parts_count) {
    Leaf *leaf = calloc(1, sizeof *leaf + (size_t)parts_count * sizeof *leaf->parts);
    if (!leaf) return NULL;
    leaf->low = low;
    leaf->shift = shift;
    leaf->slot_bytes = 2;
    leaf->parts_count = parts_count;
    for (i64 i = 0; i < parts_count; i++) {
        leaf->parts[i].merging = merging[i];
        leaf->parts[i].bytes = merging[i] == LEAST_RANK || merging[i] == GREATEST_RANK ? 8 : 1;
    }
    return leaf;
}

static void release_run(Run *run) {
    free(run->ids);
    free(run->slots);
    memset(run, 0, sizeof *run);
}

EXPORTED void elf_leaf_free(Leaf *leaf) {
    release_run(&leaf->known);
    release_run(&leaf->recent);
    release_tail(&leaf->tail);
    for (i64 i = 0; i < leaf->parts_count; i++) free(leaf->parts[i].values);
    free(leaf->buckets);
    free(leaf);
}

static inline i64 keys_of(const Leaf *leaf) { return leaf->known.count + leaf->recent.count; }

EXPORTED i64 elf_leaf_count(const Leaf *leaf) { return keys_of(leaf); }

/* Bytes of identities and states. */
EXPORTED i64 elf_leaf_bytes(const Leaf *leaf) {
    i64 bytes = leaf->buckets ? ((i64)4 << leaf->bucket_bits) + 4 : 0;
    for (i64 i = 0; i < leaf->parts_count; i++)
        if (leaf->parts[i].values) bytes += keys_of(leaf) * leaf->parts[i].bytes;
    return bytes + keys_of(leaf) * (8 + leaf->slot_bytes);
}

/* The number of keys that wait to be compressed, and the bytes of their texts. */
EXPORTED i64 elf_tail_count(const Leaf *leaf) { return leaf->tail.count; }

EXPORTED i64 elf_tail_bytes(const Leaf *leaf) { return leaf->tail.bytes; }

/* Copies the keys that wait: which are not NULL, their lengths, their bytes. */
EXPORTED void elf_tail_copy(const Leaf *leaf, u8 *valid, i64 *lengths, u8 *text) {
    for (i64 i = 0; i < leaf->tail.count; i++) {
        valid[i] = leaf->tail.lengths[i] != NULL_KEY;
        lengths[i] = bytes_of(leaf->tail.lengths[i]);
    }
    if (leaf->tail.bytes) memcpy(text, leaf->tail.text, (size_t)leaf->tail.bytes);
}

EXPORTED void elf_tail_clear(Leaf *leaf) { release_tail(&leaf->tail); }

/* Adds texts, which end at `ends`, to those that wait. Returns 0 for lack of memory. */
EXPORTED i32 elf_tail_append(Leaf *leaf, const Texts *texts, const i64 *rows, i64 count) {
    return append_keys(&leaf->tail, texts, rows, NULL, count);
}

/* The states of some slots in one part. Returns 0 if it is neutral throughout. */
EXPORTED i32 elf_leaf_states(const Leaf *leaf, i64 part, const i64 *slots, i64 count, void *to) {
    const Part *from = &leaf->parts[part];
    i64 bytes = from->merging == ANY ? 1 : 8;
    if (!from->values) return 0;
    for (i64 i = 0; i < count; i++) put_value_at(to, bytes, i, value_at(from, slots[i]));
    return 1;
}

/* Hashes out of the range stand at its ends. */
static inline u64 identity(const Leaf *leaf, u64 hash, u32 check) {
    u64 place = hash < leaf->low ? 0 : (hash - leaf->low) >> leaf->shift;
    return (place > UINT32_MAX ? UINT32_MAX : place) << 32 | check;
}

static inline u32 slot_at(const void *slots, i64 bytes, i64 at) {
    return bytes == 2 ? ((const uint16_t *)slots)[at] : ((const u32 *)slots)[at];
}

static inline void put_slot(void *slots, i64 bytes, i64 at, i64 slot) {
    if (bytes == 2) {
        ((uint16_t *)slots)[at] = (uint16_t)slot;
    } else {
        ((u32 *)slots)[at] = (u32)slot;
    }
}

/* The first place from `low` to `high` with an identity that is not lower. Takes no branches. */
static inline i64 lower_bound(const u64 *ids, i64 low, i64 high, u64 id) {
    i64 count = high - low;
    while (count > 1) {
        i64 half = count / 2;
        low = ids[low + half - 1] < id ? low + half : low;
        count -= half;
    }
    return low + (count == 1 && ids[low] < id);
}

/* The same, from a place before it on, in steps that double. */
static inline i64 place_after(const u64 *ids, i64 from, i64 count, u64 id) {
    i64 step = 1, last = from;
    while (last < count && ids[last] < id) {
        from = last + 1;
        last += step;
        step *= 2;
    }
    return lower_bound(ids, from, last < count ? last : count, id);
}

typedef struct {
    u64 id;
    i64 low, high;
} Sought;

static inline Sought sought(const Leaf *leaf, u64 id) {
    Sought it = {id, 0, leaf->known.count};
    if (leaf->buckets) {
        const u32 *bucket = leaf->buckets + (id >> 32 >> (32 - leaf->bucket_bits));
        it.low = bucket[0];
        it.high = bucket[1];
        __builtin_prefetch(&leaf->known.ids[it.low]);
        __builtin_prefetch(&leaf->known.ids[it.high]);
    }
    return it;
}

/* Where the keys of some rows are in a leaf. */
typedef struct {
    const u64 *hashes;
    const u32 *checks;
    i64 *found, *slots, *others;
    i64 found_count, others_count;
} Search;

static void find(const Leaf *leaf, i64 row, i64 end, Search *search) {
    const Run *known = &leaf->known, *recent = &leaf->recent;
    i64 cursor = 0;
    while (row < end) {
        Sought ids[AHEAD];
        int count = end - row < AHEAD ? (int)(end - row) : AHEAD;
        for (int i = 0; i < count; i++)
            ids[i] = sought(leaf, identity(leaf, search->hashes[row + i], search->checks[row + i]));
        for (int i = 0; i < count; i++, row++) {
            u64 id = ids[i].id;
            i64 at = lower_bound(known->ids, ids[i].low, ids[i].high, id), slot = -1;
            if (at < known->count && known->ids[at] == id) {
                slot = slot_at(known->slots, leaf->slot_bytes, at);
            } else if (recent->count) {
                at = cursor = place_after(recent->ids, cursor, recent->count, id >> 32 << 32);
                while (at < recent->count && recent->ids[at] < id) at++; /* keys of one place */
                if (at < recent->count && recent->ids[at] == id) slot = slot_at(recent->slots, leaf->slot_bytes, at);
            }
            if (slot >= 0) {
                search->found[search->found_count] = row;
                search->slots[search->found_count++] = slot;
            } else {
                search->others[search->others_count++] = row;
            }
        }
    }
}

/* Room for `count` entries in a run; returns 0 for lack of memory. */
static int resize(Run *run, i64 count, i64 slot_bytes) {
    u64 *ids = realloc(run->ids, (size_t)count * 8 + 1);
    void *slots;
    if (ids) run->ids = ids;
    slots = realloc(run->slots, (size_t)(count * slot_bytes) + 1);
    if (slots) run->slots = slots;
    return ids && slots;
}

static void widen(Run *run, u32 *slots) {
    for (i64 i = 0; i < run->count; i++) slots[i] = ((const uint16_t *)run->slots)[i];
    free(run->slots);
    run->slots = slots;
}

static int widen_slots(Leaf *leaf) {
    u32 *known = malloc((size_t)leaf->known.count * 4 + 1), *recent = malloc((size_t)leaf->recent.count * 4 + 1);
    if (!known || !recent) {
        free(known);
        free(recent);
        return 0;
    }
    widen(&leaf->known, known);
    widen(&leaf->recent, recent);
    leaf->slot_bytes = 4;
    return 1;
}

/* Merges two runs that have no identity in common into one with room for both. */
static void merge(const Run *left, const Run *right, Run *to, i64 slot_bytes) {
    i64 from = 0, at = 0;
    for (i64 i = 0; i <= right->count; i++) {
        i64 end = i < right->count ? place_after(left->ids, from, left->count, right->ids[i]) : left->count;
        i64 length = end - from;
        if (length) {
            memcpy(to->ids + at, left->ids + from, (size_t)length * 8);
            memcpy((u8 *)to->slots + at * slot_bytes, (const u8 *)left->slots + from * slot_bytes,
                   (size_t)(length * slot_bytes));
        }
        at += length;
        from = end;
        if (i == right->count) break;
        to->ids[at] = right->ids[i];
        put_slot(to->slots, slot_bytes, at++, slot_at(right->slots, slot_bytes, i));
    }
    to->count = at;
}

/* Merges the recent keys with the others. */
static int settle_recent(Leaf *leaf) {
    Run both = {0};
    i64 count = keys_of(leaf), bits = 0, bucket = 0;
    u32 *buckets;
    while ((BUCKET_KEYS << bits) < count && bits < 31) bits++;
    buckets = malloc(((size_t)4 << bits) + 4);
    if (!buckets || !resize(&both, count, leaf->slot_bytes)) {
        free(buckets);
        release_run(&both);
        return 0;
    }
    merge(&leaf->known, &leaf->recent, &both, leaf->slot_bytes);
    for (i64 i = 0; i < count; i++)
        for (i64 own = (i64)(both.ids[i] >> 32 >> (32 - bits)); bucket <= own;) buckets[bucket++] = (u32)i;
    while (bucket <= (i64)1 << bits) buckets[bucket++] = (u32)count;
    release_run(&leaf->known);
    release_run(&leaf->recent);
    free(leaf->buckets);
    leaf->known = both;
    leaf->buckets = buckets;
    leaf->bucket_bits = bits;
    return 1;
}

typedef struct {
    u64 id;
    u64 slot;
} New;

static int compare(const void *left, const void *right) {
    u64 one = ((const New *)left)->id, other = ((const New *)right)->id;
    return one < other ? -1 : one > other;
}

/* Merges new keys, in order, into the recent ones, from behind. */
static int take(Leaf *leaf, const New *keys, i64 count) {
    Run *recent = &leaf->recent;
    i64 left = recent->count, to = left + count;
    if (!resize(recent, to, leaf->slot_bytes)) return 0;
    recent->count = to;
    for (i64 i = count - 1; i >= 0; i--) {
        for (; left > 0 && recent->ids[left - 1] > keys[i].id; left--) {
            recent->ids[--to] = recent->ids[left - 1];
            put_slot(recent->slots, leaf->slot_bytes, to, slot_at(recent->slots, leaf->slot_bytes, left - 1));
        }
        recent->ids[--to] = keys[i].id;
        put_slot(recent->slots, leaf->slot_bytes, to, (i64)keys[i].slot);
    }
    if (recent->count <= RECENT_MIN || recent->count <= leaf->known.count / RECENT_SHARE) return 1;
    return settle_recent(leaf);
}

/* Adds keys that are not there to a leaf, with the slots that come after its own. */
static int add_keys(Leaf *leaf, const Search *search, const i64 *rows, i64 count, New *keys) {
    i64 first = keys_of(leaf), unordered = 0;
    if (!count) return 1;
    for (i64 i = 0; i < count; i++) {
        keys[i] = (New){identity(leaf, search->hashes[rows[i]], search->checks[rows[i]]), (u64)(first + i)};
        unordered += i && keys[i].id < keys[i - 1].id;
    }
    if (unordered) qsort(keys, (size_t)count, sizeof *keys, compare); /* keys of one place whose checks descend */
    if (leaf->slot_bytes == 2 && first + count > NARROW_SLOTS && !widen_slots(leaf)) return 0;
    return take(leaf, keys, count);
}

/* Rows for leaves: identities, whose hashes ascend, the states of each part (NULL: all are neutral), and their keys by
 * `rows`, unless their ends are NULL. */
typedef struct {
    const u64 *hashes;
    const u32 *checks;
    const void *const *states;
    const i64 *rows;
    Texts texts;
} Batch;

/* Merges what was found in a leaf, and adds the others. */
static int merge_rows(Leaf *leaf, const Batch *batch, const Search *search, i64 found, i64 other, New *keys) {
    i64 count = keys_of(leaf), found_count = search->found_count - found, others_count = search->others_count - other;
    const i64 *others = search->others + other;
    for (i64 i = 0; i < leaf->parts_count; i++) {
        const void *states = batch->states[i];
        if (!merge_states(&leaf->parts[i], count, states, search->slots + found, search->found + found, found_count) ||
            !append_states(&leaf->parts[i], count, states, others, others_count))
            return 0;
    }
    if (batch->texts.ends && !append_keys(&leaf->tail, &batch->texts, batch->rows, others, others_count)) return 0;
    return add_keys(leaf, search, others, others_count, keys);
}

/* Looks up rows in leaves, merges the states of those that are there, and adds the others: those of a leaf are the
 * rows between two of `bounds`. Writes the rows that were there with their slots, and the others, and of each leaf the
 * ends of both, its keys, those that wait, and the bytes of these. Returns 0 for lack of memory. */
EXPORTED i32 elf_leaves_merge(Leaf *const *leaves, const i64 *bounds, i64 leaves_count, const Batch *batch, i64 *found,
                              i64 *slots, i64 *others, i64 *figures) {
    Search search = {batch->hashes, batch->checks, found, slots, others, 0, 0};
    i64 most = 0;
    int done = 1;
    New *keys;
    for (i64 i = 0; i < leaves_count; i++)
        if (bounds[2 * i + 1] - bounds[2 * i] > most) most = bounds[2 * i + 1] - bounds[2 * i];
    if (!(keys = malloc((size_t)most * sizeof *keys + 1))) return 0;
    for (i64 i = 0; i < leaves_count && done; i++, figures += LEAF_FIGURES) {
        Leaf *leaf = leaves[i];
        i64 first = search.found_count, other = search.others_count;
        find(leaf, bounds[2 * i], bounds[2 * i + 1], &search);
        done = merge_rows(leaf, batch, &search, first, other, keys);
        figures[0] = search.found_count;
        figures[1] = search.others_count;
        figures[2] = keys_of(leaf);
        figures[3] = leaf->tail.count;
        figures[4] = leaf->tail.bytes;
    }
    free(keys);
    return done;
}

/* The slots of all keys of a leaf, in order, and their checks. */
EXPORTED void elf_leaf_order(const Leaf *leaf, i64 *slots, u32 *checks) {
    const Run *known = &leaf->known, *recent = &leaf->recent;
    i64 from = 0, at = 0;
    for (i64 i = 0; i <= recent->count; i++) {
        i64 end = i < recent->count ? place_after(known->ids, from, known->count, recent->ids[i]) : known->count;
        for (; from < end; from++) {
            checks[at] = (u32)known->ids[from];
            slots[at++] = slot_at(known->slots, leaf->slot_bytes, from);
        }
        if (i == recent->count) break;
        checks[at] = (u32)recent->ids[i];
        slots[at++] = slot_at(recent->slots, leaf->slot_bytes, i);
    }
}

/* Copies the texts of some rows, one after the other. */
EXPORTED void elf_gather(const Texts *texts, const i64 *rows, i64 count, u8 *to) { copy_texts(texts, rows, NULL, count, to); }
