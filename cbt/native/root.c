/* The root of the tree: a bounded hash table that aggregates rows, and gives its groups away in the order of their
 * hashes. */

#include "keys.h"

EXPORTED i32 elf_tree_abi(void) { return ABI * 1000 + (i32)sizeof(Root); }

/* Slots that a key is looked for in: one of them is empty, unless the root is large. */
static inline i64 probes_of(const Root *root) {
    return root->entries_max < PROBES_MAX ? root->entries_max + 1 : PROBES_MAX;
}

static inline i64 slots_of(const Root *root) { return ((i64)1 << root->slot_bits) + probes_of(root); }

/* Groups stand in the order of their hashes, which in each pane begins elsewhere: groups of one key are apart. */
static inline u64 turn_of(u32 pane) { return pane * 0x9E3779B97F4A7C15u; }

static inline i64 first_slot(const Root *root, u64 hash, u32 pane) {
    return (i64)(((hash << root->skipped_bits) + turn_of(pane)) >> (64 - root->slot_bits));
}

/* Writes a key of at most 16 bytes. */
static inline void unpack(const Entry *entry, u8 *to) {
    u32 length = bytes_of(entry->length);
    if (length >= 8) {
        memcpy(to, &entry->key[0], 8);
        memcpy(to + length - 8, &entry->key[1], 8);
    } else if (length >= 4) {
        memcpy(to, &entry->key[0], 4);
        memcpy(to + length - 4, &entry->key[1], 4);
    } else {
        for (u32 i = 0; i < length; i++) to[i] = (u8)(entry->key[0] >> (8 * i));
    }
}

/* The bytes of a group's key, in the arena or written to `few`. */
static inline const u8 *key_of(const Root *root, const Entry *entry, u8 *few) {
    if (bytes_of(entry->length) > INLINE_KEY) return arena_key(root, entry);
    unpack(entry, few);
    return few;
}

static inline i64 words_count(const Root *root) { return (root->stride - (i64)sizeof(Entry)) / 8; }

/* The number of a pane; -1 if there are too many. */
static i64 pane_number(Root *root, i64 pane) {
    for (i64 i = root->panes_used; i-- > 0;)
        if (root->panes[i] == pane) return i;
    if (root->panes_used >= root->panes_max) return -1;
    root->panes[root->panes_used] = pane;
    return root->panes_used++;
}

/* Adds a group, which is not there, in an empty slot. Returns its number, or -1 if there is no room. */
static inline i64 add_entry(Root *root, i64 slot, const RowKey *key, u32 pane) {
    Entry *entry;
    u32 length = bytes_of(key->length);
    int is_long = length > INLINE_KEY;
    if (root->used >= root->entries_max || (is_long && root->arena_bytes - root->arena_used < length)) return -1;
    entry = entry_of(root, root->used);
    for (i64 word = 0; word < words_count(root); word++) words_of(entry)[word] = 0;
    entry->key[1] = 0;
    entry->hash = key->hash;
    entry->pane = pane;
    entry->length = key->length;
    if (is_long) {
        memcpy(root->arena + root->arena_used, key->start, length);
        entry->key[0] = (u64)root->arena_used;
        root->arena_used += length;
    } else {
        pack(key->start, length, entry->key);
    }
    root->slots[slot] = (key->hash >> 32 << 32) + (u64)(root->used + 1);
    return root->used++;
}

/* The number of a key's group in a pane, which is added if it is new. -1: no room; -2: too many that begin alike. */
static inline i64 find_or_add(Root *root, const RowKey *key, u32 pane) {
    i64 slot = first_slot(root, key->hash, pane), last = slot + probes_of(root);
    u64 words[2] = {0, 0};
    u32 length = bytes_of(key->length);
    if (length <= INLINE_KEY) pack(key->start, length, words);
    for (; slot < last; slot++) {
        u64 held = root->slots[slot];
        const Entry *entry;
        if (!held) return add_entry(root, slot, key, pane);
        if (held >> 32 != key->hash >> 32) continue;
        entry = entry_of(root, (i64)(u32)held - 1);
        if (entry->hash != key->hash || entry->pane != pane || entry->length != key->length) continue;
        if (length > INLINE_KEY ? !memcmp(arena_key(root, entry), key->start, length)
                                : entry->key[0] == words[0] && entry->key[1] == words[1])
            return (i64)(u32)held - 1;
    }
    return -2;
}

/* States. */

static inline u64 rank_of(const Column *column, i64 row) {
    double value;
    u64 bits;
    if (column->format == 'l') return (u64)integer_at(column->array, row) ^ (u64)1 << 63;
    if (column->format == 'b') return (u64)truth_at(column->array, row);
    value = double_at(column->array, row);
    if (value != value) return 0xFFF8000000000000u;
    value += 0.0; /* -0.0 is 0 */
    memcpy(&bits, &value, 8);
    return bits >> 63 ? ~bits : bits | (u64)1 << 63;
}

static inline void add_wide(u64 *words, i128 value) {
    i128 sum;
    memcpy(&sum, words, sizeof sum);
    sum = (i128)((unsigned __int128)sum + (unsigned __int128)value);
    memcpy(words, &sum, sizeof sum);
}

/* A double that is 0 or of a magnitude from 2**-75 to below 2**63, as the fixed-point numbers that make it up. */
static inline void add_double(u64 *words, double value) {
    double scaled = value * 4294967296.0;
    i128 units;
    if (scaled < 9e18 && scaled > -9e18) {
        i64 narrow = (i64)scaled;
        units = narrow;
        scaled -= (double)narrow;
    } else {
        units = (i128)scaled;
        scaled -= (double)units;
    }
    add_wide(words, units);
    if (scaled != 0.0) add_wide(words + 2, (i128)(scaled * 79228162514264337593543950336.0));
}

/* The square of an integer, as a count of 2**bits and the rest in units of 2**-scale. */
static inline void add_square(u64 *words, i64 value, int bits, int scale) {
    i128 square = (i128)value * value;
    add_wide(words, square >> bits);
    add_wide(words + 2, (square & (((i128)1 << bits) - 1)) << scale);
}

/* The square of a double as for `add_double`, digit by digit of 96 bits. */
static inline void add_double_square(u64 *words, double value) {
    u64 bits, significand;
    unsigned __int128 square;
    int exponent, shift;
    memcpy(&bits, &value, 8);
    exponent = (int)(bits >> 52 & 0x7FF);
    if (!exponent) return;
    significand = (bits & (((u64)1 << 52) - 1)) | (u64)1 << 52;
    square = (unsigned __int128)significand * significand;
    shift = 2 * (exponent - 1023 - 52) + 256; /* in units of 2**-256, the lowest bit of the square */
    for (int digit = 0; digit < 4; digit++) {
        int from = 96 * (3 - digit) - shift; /* the place of this digit in the square */
        unsigned __int128 part = from <= -128 || from >= 128 ? 0 : from < 0 ? square << -from : square >> from;
        if (digit) part &= ((unsigned __int128)1 << 96) - 1;
        add_wide(words + 2 * digit, (i128)part);
    }
}

static void add_states(Root *root, const Source *source, const i64 *rows, const u32 *numbers, int count) {
    const Column *column = &source->column;
    const Array *array = column->array;
    if (source->operation == COUNT_ROWS) {
        for (int i = 0; i < count; i++) words_of(entry_of(root, numbers[i]))[source->word]++;
        return;
    }
    if (column->format == 'n') return;
    for (int i = 0; i < count; i++) {
        u64 *words = words_of(entry_of(root, numbers[i])) + source->word;
        i64 row = rows[i];
        if (!is_valid(array, row)) continue;
        switch (source->operation) {
        case COUNT_VALUES: words[0]++; break;
        case SUM_INTEGERS: add_wide(words, integer_at(array, row)); break;
        case SUM_UNITS: add_wide(words, (i128)integer_at(array, row) * 4294967296); break;
        case SUM_DOUBLES: add_double(words, double_at(array, row)); break;
        case SUM_SQUARES: add_square(words, integer_at(array, row), 72, 0); break;
        case SUM_UNIT_SQUARES: add_square(words, integer_at(array, row), 32, 64); break;
        case SUM_DOUBLE_SQUARES: add_double_square(words, double_at(array, row)); break;
        case LEAST: case GREATEST: {
            u64 rank = rank_of(column, row);
            if (source->operation == LEAST) rank = ~rank;
            if (!words[0] || rank > words[1]) words[1] = rank;
            words[0] = 1;
            break;
        }
        }
    }
}

/* Rows. */

static inline int is_in_half(const Block *block, u64 hash) {
    return !block->half || (hash >> 63) + 1 == (u64)block->half;
}

/* `read_keys` where the key is one column of texts, stored as they are: most are read in a few steps. */
static int read_texts(const Block *block, RowKey *keys, i64 *rows, i64 *end) {
    const Array *array = block->keys->array;
    i64 row = block->row;
    int count = 0;
    for (; row < block->rows && count < CHUNK_ROWS; row++) {
        RowKey *key = &keys[count];
        Text text;
        u64 element = NULL_ELEMENT;
        if (!text_at(array, row, &text)) break;
        key->start = text.start;
        key->length = text.length < 0 ? NULL_KEY : (u32)text.length;
        if (text.length >= 0) element = xxh3(text.start, (u64)text.length, block->seed);
        key->hash = mixed(block->seed ^ element);
        rows[count] = row;
        count += is_in_half(block, key->hash);
    }
    *end = row;
    return count;
}

/* Reads the keys of the next rows of the half, at most CHUNK_ROWS. Returns their number, and where they end. */
static int read_keys(const Block *block, RowKey *keys, i64 *rows, i64 *end) {
    u8 *scratch = block->scratch;
    i64 row = block->row;
    int count = 0;
    if (is_bare(block->keys, block->keys_count) && block->keys->stored == STORED_TEXT && block->keys->format == 'v')
        return read_texts(block, keys, rows, end);
    for (; row < block->rows && count < CHUNK_ROWS; row++) {
        if (!read_key(block, row, &scratch, &keys[count])) break;
        rows[count] = row;
        count += is_in_half(block, keys[count].hash);
    }
    *end = row;
    return count;
}

/* Inserts the block's rows from `row` on, which it moves to the first row that is not in. FULL: the root has no room for
 * another group; CROWDED: too many keys stand at one place; UNFIT: a key cannot be read here. */
EXPORTED i32 elf_root_insert(Root *root, Block *block) {
    RowKey keys[CHUNK_ROWS + 1];
    i64 rows[CHUNK_ROWS + 1];
    u32 numbers[CHUNK_ROWS];
    u32 codes[CHUNK_ROWS];
    const i64 *panes = (const i64 *)block->panes->buffers[1] + block->panes->offset;
    i64 pane = 0, code = -1;
    while (block->row < block->rows) {
        i64 end;
        int count = read_keys(block, keys, rows, &end), done = 0, status = DONE;
        if (end == block->row) return UNFIT;
        for (; done < count; done++) {
            if (code < 0 || panes[rows[done]] != pane) {
                pane = panes[rows[done]];
                code = pane_number(root, pane);
                if (code < 0) break;
            }
            codes[done] = (u32)code;
            __builtin_prefetch(&root->slots[first_slot(root, keys[done].hash, codes[done])]);
        }
        if (done < count) {
            status = FULL;
            count = done;
        }
        for (int i = 0; i < count; i++) {
            u64 held = root->slots[first_slot(root, keys[i].hash, codes[i])];
            if (held) {
                const Entry *entry = entry_of(root, (i64)(u32)held - 1);
                __builtin_prefetch(entry, 1);
                __builtin_prefetch(entry + 1, 1);
            }
        }
        for (done = 0; done < count; done++) {
            i64 number = find_or_add(root, &keys[done], codes[done]);
            if (number < 0) {
                status = number == -1 ? FULL : CROWDED;
                break;
            }
            numbers[done] = (u32)number;
        }
        for (i64 i = 0; i < block->sources_count; i++) add_states(root, &block->sources[i], rows, numbers, done);
        root->rows += done;
        block->row = status == DONE ? end : rows[done];
        if (status != DONE) return status;
    }
    return DONE;
}

/* Copies groups into an empty root with room for them, except those of the panes from `first` to `last`. Returns 0 if it
 * has none. */
EXPORTED i32 elf_root_copy(const Root *from, Root *to, i64 first, i64 last) {
    for (i64 i = 0; i < from->used; i++) {
        const Entry *entry = entry_of(from, i);
        i64 pane = from->panes[entry->pane], code, slot, end, number = -1;
        u8 few[INLINE_KEY];
        RowKey key = {key_of(from, entry, few), entry->length, entry->hash};
        if (pane >= first && pane <= last) continue;
        if ((code = pane_number(to, pane)) < 0) return 0;
        slot = first_slot(to, entry->hash, (u32)code);
        for (end = slot + probes_of(to); slot < end && to->slots[slot]; slot++) {}
        if (slot < end) number = add_entry(to, slot, &key, (u32)code);
        if (number < 0) return 0;
        memcpy(words_of(entry_of(to, number)), words_of((Entry *)entry), (size_t)(to->stride - (i64)sizeof(Entry)));
    }
    return 1;
}

/* What leaves the root. A place is the upper half of a group's hash, and below it the group's number. */

static inline void settle(u64 *places, i64 first, i64 at, u64 place) {
    for (; at > first && place < places[at - 1]; at--) places[at] = places[at - 1];
    places[at] = place;
}

static inline u32 check_of_entry(const Root *root, const Entry *entry, const u64 *secret) {
    if (bytes_of(entry->length) > INLINE_KEY) return check_of(arena_key(root, entry), entry->length, secret);
    return check_of_words(entry->key, entry->length, secret);
}

static int is_before(const Root *root, u64 left, u64 right, const u64 *secret) {
    const Entry *one = entry_of(root, (u32)left), *other = entry_of(root, (u32)right);
    if (one->hash != other->hash) return one->hash < other->hash;
    return check_of_entry(root, one, secret) < check_of_entry(root, other, secret);
}

/* Orders places that share the upper half of a hash. */
static void settle_alike(const Root *root, u64 *places, i64 count, const u64 *secret) {
    for (i64 i = 1; i < count; i++) {
        u64 place = places[i];
        i64 at = i;
        for (; at > 0 && places[at - 1] >> 32 == place >> 32 && is_before(root, place, places[at - 1], secret); at--)
            places[at] = places[at - 1];
        places[at] = place;
    }
}

/* Whether a group stands before those with lower hashes, since the order of its pane does not begin at the first slot. */
static inline int is_wrapped(const Root *root, const Entry *entry) {
    u64 hash = entry->hash << root->skipped_bits;
    return hash + turn_of(entry->pane) < hash;
}

/* All groups, pane by pane in the order of panes' numbers, each in the order of hash and check; `ends` takes the end of
 * each pane. Runs of slots are hardly ever long: so sorting by insertion is fast. `parts` has four numbers a pane. */
EXPORTED void elf_root_order(const Root *root, const u64 *secret, u64 *places, i64 *parts, i64 *ends) {
    i64 slots = slots_of(root), at = 0, first = 0;
    i64 *firsts = parts, *next = parts + 2 * root->panes_used;
    int is_one = root->panes_used == 1;
    memset(parts, 0, (size_t)root->panes_used * 4 * sizeof *parts);
    for (i64 i = 0; i < root->used && !is_one; i++) {
        const Entry *entry = entry_of(root, i);
        firsts[2 * entry->pane + is_wrapped(root, entry)]++;
    }
    if (is_one) firsts[0] = root->used;
    for (i64 part = 0; part < 2 * root->panes_used; part++) {
        i64 count = firsts[part];
        firsts[part] = next[part] = at;
        at += count;
        if (part % 2) ends[part / 2] = at;
    }
    for (i64 slot = 0; slot < slots; slot++) {
        u64 held = root->slots[slot];
        i64 part = 0;
        if (!held) continue;
        held--;
        if (!is_one) {
            const Entry *entry = entry_of(root, (u32)held);
            part = 2 * entry->pane + is_wrapped(root, entry);
        }
        settle(places, firsts[part], next[part]++, held);
    }
    for (i64 pane = 0; pane < root->panes_used; first = ends[pane++])
        settle_alike(root, places + first, ends[pane] - first, secret);
}

/* What the groups at some places have: hashes, checks, words of states, each `count` behind the last. Of bare keys also
 * whether they are not NULL, their lengths, and their bytes one after the other in `text`, with the ends of each. Returns the bytes of text. */
EXPORTED i64 elf_root_emit(const Root *root, const u64 *places, i64 count, const u64 *secret, u64 *hashes, u32 *checks,
                           u64 *words, i32 bare, u8 *valid, i64 *lengths, i64 *ends, u8 *text) {
    i64 at = 0;
    for (i64 i = 0; i < count; i++) {
        Entry *entry = entry_of(root, (u32)places[i]);
        u32 length = bytes_of(entry->length);
        if (i + FAR_AHEAD < count) __builtin_prefetch(entry_of(root, (u32)places[i + FAR_AHEAD]));
        hashes[i] = entry->hash;
        checks[i] = check_of_entry(root, entry, secret);
        for (i64 word = 0; word < words_count(root); word++) words[word * count + i] = words_of(entry)[word];
        if (!bare) continue;
        valid[i] = entry->length != NULL_KEY;
        lengths[i] = length;
        if (length <= INLINE_KEY) {
            unpack(entry, text + at);
        } else {
            memcpy(text + at, arena_key(root, entry), length);
        }
        ends[i] = at += length;
    }
    return at;
}

/* A column of the groups' keys of several, which begins at `cursors`, which move on. Writes whether there is a value, and
 * the value; of a text its length. Returns the bytes of all texts. */
EXPORTED i64 elf_root_values(const Root *root, const u64 *places, i64 count, i32 stored, u32 *cursors, u8 *valid,
                             i64 *values) {
    i64 bytes = 0;
    for (i64 i = 0; i < count; i++) {
        u8 few[INLINE_KEY];
        const u8 *p = key_of(root, entry_of(root, (u32)places[i]), few) + cursors[i];
        if (stored == STORED_BOOLEAN) {
            valid[i] = *p > 0;
            values[i] = *p > 1;
            cursors[i] += 1;
        } else if (stored == STORED_INTEGER) {
            valid[i] = *p;
            memcpy(&values[i], p + 1, 8);
            cursors[i] += 9;
        } else {
            u32 length = load32(p);
            valid[i] = length != NULL_KEY;
            values[i] = bytes_of(length);
            bytes += values[i];
            cursors[i] += 4 + bytes_of(length);
        }
    }
    return bytes;
}

/* The texts of such a column one after the other; each, of its length, ends at its cursor. */
EXPORTED void elf_root_texts(const Root *root, const u64 *places, i64 count, const u32 *cursors, const i64 *lengths,
                             u8 *to) {
    for (i64 i = 0; i < count; to += lengths[i], i++) {
        u8 few[INLINE_KEY];
        const u8 *p = key_of(root, entry_of(root, (u32)places[i]), few);
        memcpy(to, p + cursors[i] - lengths[i], (size_t)lengths[i]);
    }
}

/* Sums of 128 bits, in two arrays of words, as limbs of LIMB_BITS, `count` apart: only the lowest of them, with the sign,
 * where all fit it, all three else. Returns their number, 0 where all sums are 0. */
EXPORTED i64 elf_limbs(const u64 *words, i64 count, i64 *limbs) {
    const i128 most = (i128)1 << LIMB_BITS;
    int wide = 0, any = 0;
    for (i64 i = 0; i < count; i++) {
        i128 sum = (i128)((unsigned __int128)words[count + i] << 64 | words[i]);
        wide |= sum >= most || sum <= -most;
        any |= sum != 0;
        limbs[i] = (i64)sum;
    }
    if (!any || !wide) return any;
    for (i64 i = 0; i < count; i++) {
        i128 sum = (i128)((unsigned __int128)words[count + i] << 64 | words[i]);
        limbs[i] = (i64)(sum & (most - 1));
        limbs[count + i] = (i64)(sum >> LIMB_BITS & (most - 1));
        limbs[2 * count + i] = (i64)(sum >> (2 * LIMB_BITS));
    }
    return 3;
}

/* Whether all of a column's doubles are 0 or have a magnitude from 2**-75 to below 2**63. */
EXPORTED i32 elf_are_ordinary(const Array *array) {
    for (i64 row = 0; row < array->length; row++) {
        double value = double_at(array, row), magnitude = value < 0 ? -value : value;
        if (!(magnitude < 9223372036854775808.0 && (magnitude >= 0x1p-75 || magnitude == 0)) && is_valid(array, row))
            return 0;
    }
    return 1;
}
