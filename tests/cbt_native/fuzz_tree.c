/* Drives the root table with random blocks and leaves with random hashes, under sanitizers, beside lists of what is in
 * them.
 *
 *     fuzz_tree SEED ROUNDS
 *
 * Leaves have states and texts. Keys are short and long, NULL, with escapes, of one column and of several; views lead outside their buffers now and
 * then; tables and arenas are small; keys share hashes in part. Ends with 1 where they differ from a list.
 */

#include "../../cbt/native/leaf.c"
#include "../../cbt/native/root.c"
#include "../../cbt/native/texts.c"

#include <stdio.h>

#define ROWS 300
#define ENTRIES 128
#define WORDS 9
#define ARENA 2048
#define PANES 4
#define TEXT 4096
#define LISTED 4096
#define PARTS 5
#define LONGEST 40

static u64 state;

static u64 chance(u64 below) {
    state = mixed(state);
    return state % below;
}

typedef struct {
    Array array;
    const void *buffers[4];
    u8 valid[ROWS / 8 + 2], bits[ROWS / 8 + 2], text[TEXT], views[16 * (ROWS + 8)];
    i64 numbers[ROWS + 8], size;
} Made;

static void make(Made *made, int format, i64 rows) {
    i64 offset = (i64)chance(8), at = 0;
    memset(&made->array, 0, sizeof made->array);
    made->array.length = rows;
    made->array.offset = offset;
    made->array.buffers = made->buffers;
    for (u64 i = 0; i < sizeof made->valid; i++) made->valid[i] = (u8)(chance(256) | chance(256) | chance(256));
    for (u64 i = 0; i < sizeof made->bits; i++) made->bits[i] = (u8)chance(256);
    made->buffers[0] = chance(3) ? made->valid : NULL;
    made->array.n_buffers = 2;
    made->buffers[1] = format == 'b' ? (void *)made->bits : made->numbers;
    for (i64 i = 0; i < rows + offset; i++) made->numbers[i] = chance(20) ? (i64)chance(9) - 4 : (i64)mixed(chance(1000));
    if (format != 'v') return;
    for (i64 i = 0; i < TEXT; i++) made->text[i] = (u8)(chance(12) ? 'a' + chance(2) : chance(128));
    made->buffers[1] = made->views;
    made->buffers[2] = made->text;
    made->size = TEXT;
    made->buffers[3] = &made->size;
    made->array.n_buffers = 4;
    memset(made->views, 0, sizeof made->views);
    for (i64 i = 0; i < rows + offset; i++, at += 16) {
        i32 length = (i32)(chance(4) ? chance(20) : chance(300)), place[2] = {0, (i32)chance(TEXT - 300)};
        if (!chance(200)) {
            place[0] = (i32)chance(3) - 1;
            place[1] = (i32)chance(2 * TEXT) - TEXT;
            length = (i32)chance(1000) - 500;
        }
        memcpy(made->views + at, &length, 4);
        if (length > 12) {
            memcpy(made->views + at + 4, made->text + (place[1] < 0 || place[1] > TEXT - 4 ? 0 : place[1]), 4);
            memcpy(made->views + at + 8, place, 8);
        } else if (length > 0) {
            memcpy(made->views + at + 4, made->text + chance(100), (size_t)length);
        }
    }
}

static Made keys_made[3], panes_made, argument;
static u8 scratch[8192];

typedef struct {
    u64 hash, check, count;
    i64 pane;
} Listed;

static Listed list[LISTED];
static i64 listed;
static const u64 secret[8] = {7, 9, (u64)1 << 50, 0x9E3779B97F4A7C15u, 3, (u64)5 << 40, 11, 13};

static void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static void count_in_list(const RowKey *key, i64 pane) {
    u32 check = check_of(key->start, key->length, secret);
    i64 i = 0;
    while (i < listed && (list[i].hash != key->hash || list[i].check != check || list[i].pane != pane)) i++;
    if (i == LISTED) fail("the list is full");
    if (i == listed) list[listed++] = (Listed){key->hash, check, 0, pane};
    list[i].count++;
}

/* Takes the table's groups off the list, in order. */
static void drain(Root *root, i64 bare) {
    static u64 places[ENTRIES], hashes[ENTRIES], words[ENTRIES * WORDS];
    static u32 checks[ENTRIES];
    static u8 valid[ENTRIES], text[ARENA + ENTRIES * INLINE_KEY];
    static i64 parts[4 * PANES], ends[PANES], lengths[ENTRIES], rows[ENTRIES], text_ends[ENTRIES];
    i64 first = 0, used = root->used;
    elf_root_order(root, secret, places, parts, ends);
    for (i64 pane = 0; pane < root->panes_used; first = ends[pane++]) {
        i64 count = ends[pane] - first, size;
        size = elf_root_emit(root, places + first, count, secret, hashes, checks, words, (i32)bare, valid, lengths, text_ends, text);
        for (i64 i = 0; i < count; i++) {
            i64 at = 0;
            if (i && (hashes[i] < hashes[i - 1] || (hashes[i] == hashes[i - 1] && checks[i] < checks[i - 1])))
                fail("groups are not in order");
            while (at < listed && (list[at].hash != hashes[i] || list[at].check != checks[i] ||
                                   list[at].pane != root->panes[pane])) at++;
            if (at == listed) fail("a group is not in the list");
            if (list[at].count < words[i]) fail("a group has counted more rows than there were");
            list[at].count -= words[i];
            rows[i] = i;
        }
        if (bare && count) {
            Array array;
            struct Schema schema;
            for (i64 i = 0, end = 0; i < count; i++)
                if (text_ends[i] != (end += lengths[i])) fail("texts have other lengths");
            if (text_ends[count - 1] != size) fail("texts are longer");
            if (elf_texts(text, text_ends, valid, rows, 1, &array, &schema)) array.release(&array);
            if (elf_texts(text, text_ends, valid, NULL, count, &array, &schema)) array.release(&array);
            elf_text_hashes(text, text_ends, valid, count, 5, hashes);
        }
    }
    if (root->panes_used && first != used) fail("groups are missing");
}

static void clear(Root *root) {
    memset(root->slots, 0, (size_t)slots_of(root) * 8);
    root->used = root->arena_used = root->panes_used = 0;
}

static Root table(i64 bits, i64 words, i64 skipped) {
    Root root = {0};
    root.slot_bits = bits;
    root.entries_max = 1 + (i64)chance(ENTRIES);
    root.stride = (i64)sizeof(Entry) + 8 * words;
    root.arena_bytes = (i64)chance(ARENA);
    root.panes_max = 1 + (i64)chance(PANES);
    root.skipped_bits = skipped;
    root.slots = calloc((size_t)slots_of(&root), 8);
    root.entries = malloc((size_t)(root.entries_max * root.stride));
    root.arena = malloc((size_t)root.arena_bytes + 1);
    root.panes = malloc((size_t)root.panes_max * 8);
    return root;
}

static void release(Root *root) {
    free(root->slots);
    free(root->entries);
    free(root->arena);
    free(root->panes);
}

static int compare_hashes(const void *left, const void *right) {
    u64 one = *(const u64 *)left, other = *(const u64 *)right;
    return one < other ? -1 : one > other;
}

/* Hashes of keys, some of which are close to others, in order and without repetition. */
static i64 make_hashes(u64 *hashes, i64 most) {
    i64 count = 0;
    int spread = (int)chance(64);
    for (i64 i = 0; i < most; i++) hashes[i] = (mixed(chance(40)) & ~(u64)0xFFFF) + (chance(300) << spread);
    qsort(hashes, (size_t)most, sizeof *hashes, compare_hashes);
    for (i64 i = 0; i < most; i++)
        if (!i || hashes[i] != hashes[count - 1]) hashes[count++] = hashes[i];
    return count;
}

/* Rows for leaves: in their order, but texts from the last row to the first. */
static struct {
    u64 hashes[ROWS], ranks[2][ROWS];
    i64 limbs[2][ROWS], rows[ROWS], ends[ROWS];
    u32 checks[ROWS];
    u8 any[ROWS], text[ROWS * LONGEST], valid[ROWS];
    const void *states[PARTS];
    i64 sign;
} made;

/* A key in a leaf, by slot. */
typedef struct {
    u64 hash, sum, least, greatest;
    u8 any;
} Kept;

static i64 length_of_hash(u64 hash) { return hash % 5 ? (i64)(mixed(hash) % LONGEST) : 0; }

static Batch make_batch(i64 count) {
    int magnitude = chance(2) ? 62 : (int)chance(63); /* so that limbs carry */
    i64 at = 0;
    for (i64 i = 0; i < count; i++) {
        u64 hash = made.hashes[count - 1 - i];
        made.checks[i] = (u32)mixed(made.hashes[i]);
        made.limbs[0][i] = made.sign * (i64)chance((u64)1 << magnitude);
        made.limbs[1][i] = (i64)chance(200) - 100;
        made.ranks[0][i] = mixed(chance(1000));
        made.ranks[1][i] = mixed(chance(1000));
        made.any[i] = (u8)chance(2);
        made.rows[i] = count - 1 - i;
        made.valid[i] = hash % 5 > 0;
        memset(made.text + at, (int)(hash % 251), (size_t)length_of_hash(hash));
        made.ends[i] = at += length_of_hash(hash);
    }
    for (int part = 0; part < PARTS; part++) made.states[part] = NULL;
    if (chance(4)) made.states[0] = made.limbs[0];
    if (!chance(3)) made.states[1] = made.limbs[1];
    if (chance(3)) made.states[2] = made.ranks[0];
    if (chance(3)) made.states[3] = made.ranks[1];
    if (chance(3)) made.states[4] = made.any;
    return (Batch){made.hashes, made.checks, made.states, made.rows, {made.text, made.ends, made.valid}};
}

static void keep_states(Kept *kept, i64 row) {
    if (made.states[0]) kept->sum += (u64)made.limbs[0][row];
    if (made.states[1]) kept->sum += (u64)made.limbs[1][row] << LIMB_BITS;
    if (made.states[2] && made.ranks[0][row] < kept->least) kept->least = made.ranks[0][row];
    if (made.states[3] && made.ranks[1][row] > kept->greatest) kept->greatest = made.ranks[1][row];
    if (made.states[4]) kept->any |= made.any[row];
}

static void check_states(const Leaf *leaf, const Kept *kept, i64 count) {
    static i64 limbs[2][LISTED], slots[LISTED];
    static u64 ranks[2][LISTED];
    static u8 any[LISTED];
    void *to[PARTS] = {limbs[0], limbs[1], ranks[0], ranks[1], any};
    int there[PARTS];
    for (i64 i = 0; i < count; i++) slots[i] = count - 1 - i;
    for (int part = 0; part < PARTS; part++) there[part] = elf_leaf_states(leaf, part, slots, count, to[part]);
    for (i64 i = 0; i < count; i++) {
        const Kept *own = &kept[slots[i]];
        u64 sum = (there[0] ? (u64)limbs[0][i] : 0) + (there[1] ? (u64)limbs[1][i] << LIMB_BITS : 0);
        if (sum != own->sum) fail("a sum is another");
        if ((there[2] ? ranks[0][i] : UINT64_MAX) != own->least) fail("the least is another");
        if ((there[3] ? ranks[1][i] : 0) != own->greatest) fail("the greatest is another");
        if ((there[4] ? any[i] : 0) != own->any) fail("what is there is another");
    }
}

/* The texts that wait are those of the last keys. */
static void check_texts(Leaf *leaf, const Kept *kept, i64 count) {
    i64 waiting = elf_tail_count(leaf), at = 0;
    i64 *lengths = malloc((size_t)waiting * 8 + 1);
    u8 *valid = malloc((size_t)waiting + 1), *text = malloc((size_t)elf_tail_bytes(leaf) + 1);
    elf_tail_copy(leaf, valid, lengths, text);
    for (i64 i = 0; i < waiting; i++) {
        u64 hash = kept[count - waiting + i].hash;
        if (valid[i] != (hash % 5 > 0) || lengths[i] != length_of_hash(hash)) fail("a text has another length");
        for (i64 end = at + lengths[i]; at < end; at++)
            if (text[at] != hash % 251) fail("a text is another");
    }
    if (at != elf_tail_bytes(leaf)) fail("texts have other bytes");
    free(lengths);
    free(valid);
    free(text);
    if (chance(2)) elf_tail_clear(leaf);
}

/* Merges rows into two leaves, and holds them to a list of each one's keys by slot. */
static void leaves_round(void) {
    static const u8 merging[PARTS] = {SUM, LAST_SUM, LEAST_RANK, GREATEST_RANK, ANY};
    static Kept known[2][LISTED];
    static u32 order_checks[LISTED];
    static i64 found[ROWS], slots[ROWS], others[ROWS], order[LISTED], counts[2];
    u64 middle = mixed(chance(40));
    Leaf *leaves[2] = {elf_leaf_new(chance(2) ? 0 : chance(1 << 20), (i64)chance(34), merging, PARTS),
                       elf_leaf_new(middle, 32, merging, PARTS)};
    counts[0] = counts[1] = 0;
    made.sign = chance(2) ? 1 : -1;
    for (i64 step = 1 + (i64)chance(12); step > 0; step--) {
        i64 count = make_hashes(made.hashes, 1 + (i64)chance(ROWS)), cut = 0, figures[2 * LEAF_FIGURES], new_keys = 0;
        i64 there = 0;
        Batch batch = make_batch(count);
        while (cut < count && made.hashes[cut] < middle) cut++;
        i64 bounds[4] = {0, cut, cut, count};
        if (!elf_leaves_merge(leaves, bounds, 2, &batch, found, slots, others, figures)) fail("no memory");
        if (figures[LEAF_FIGURES] + figures[LEAF_FIGURES + 1] != count) fail("keys are missing, or there are too many");
        for (i64 leaf = 0; leaf < 2; leaf++) {
            const i64 *own = figures + leaf * LEAF_FIGURES;
            for (; there < own[0]; there++) {
                if (slots[there] >= counts[leaf] || known[leaf][slots[there]].hash != made.hashes[found[there]])
                    fail("a key was found in the slot of another");
                keep_states(&known[leaf][slots[there]], found[there]);
            }
            for (; new_keys < own[1]; new_keys++) {
                u64 hash = made.hashes[others[new_keys]];
                for (i64 i = 0; i < counts[leaf]; i++)
                    if (known[leaf][i].hash == hash) fail("a key was not found");
                known[leaf][counts[leaf]] = (Kept){hash, 0, UINT64_MAX, 0, 0};
                keep_states(&known[leaf][counts[leaf]++], others[new_keys]);
            }
            if (own[2] != counts[leaf] || own[3] != elf_tail_count(leaves[leaf]) ||
                own[4] != elf_tail_bytes(leaves[leaf]))
                fail("a leaf has other figures");
            check_states(leaves[leaf], known[leaf], counts[leaf]);
            check_texts(leaves[leaf], known[leaf], counts[leaf]);
        }
    }
    for (i64 leaf = 0; leaf < 2; leaf++) {
        if (elf_leaf_count(leaves[leaf]) != counts[leaf] || elf_leaf_bytes(leaves[leaf]) < 10 * counts[leaf])
            fail("a leaf has another number of keys");
        elf_leaf_order(leaves[leaf], order, order_checks);
        for (i64 i = 0; i < counts[leaf]; i++) {
            u64 own = known[leaf][order[i]].hash;
            if (order_checks[i] != (u32)mixed(own)) fail("a slot has the check of another");
            if (i && identity(leaves[leaf], known[leaf][order[i - 1]].hash, 0) > identity(leaves[leaf], own, 0))
                fail("a leaf is not in order");
        }
        elf_leaf_free(leaves[leaf]);
    }
}

static void one_round(void) {
    static const char formats[] = "nvlb";
    i64 rows = 1 + (i64)chance(ROWS), half = (i64)chance(3), columns = (i64)chance(4);
    Column keys[3];
    Source sources[3] = {{COUNT_ROWS, 0, {0}}, {0}, {0}};
    Root root = table(4 + (i64)chance(6), WORDS, half > 0);
    Block block = {keys, sources, &panes_made.array, scratch, columns, 2, (i64)chance(sizeof scratch), chance(3), 0, rows, half};
    for (i64 i = 0; i < columns; i++) {
        int stored = (int)chance(4), format = formats[chance(4)];
        if (stored == STORED_TEXT) format = chance(5) ? 'v' : 'n';
        if (stored == STORED_INTEGER) format = chance(5) ? 'l' : 'n';
        if (stored == STORED_BOOLEAN) format = chance(5) ? 'b' : 'n';
        make(&keys_made[i], format, rows);
        keys[i] = (Column){&keys_made[i].array, format, stored};
    }
    make(&panes_made, 'l', rows);
    make(&argument, 'l', rows);
    sources[1] = (Source){(i32)(1 + chance(9)), 1, {&argument.array, "lg"[chance(2)], 0}};
    if (sources[1].operation == SUM_DOUBLES || sources[1].operation == SUM_DOUBLE_SQUARES) {
        sources[1].column.format = 'g';
        for (i64 i = 0; i < ROWS + 8; i++) {
            double value = (double)((i64)chance(1000) - 500) / 8;
            memcpy(&argument.numbers[i], &value, 8);
        }
        if (!elf_are_ordinary(&argument.array)) fail("ordinary doubles are not");
    } else if (sources[1].operation <= SUM_UNITS || sources[1].operation >= SUM_SQUARES) {
        sources[1].column.format = 'l';
    }
    listed = 0;
    while (block.row < rows) {
        i64 before = block.row, status = elf_root_insert(&root, &block);
        for (i64 row = before; row < block.row; row++) {
            u8 *to = scratch;
            RowKey key;
            if (!read_key(&block, row, &to, &key)) fail("a key was read, and cannot be");
            if (!half || (i64)(key.hash >> 63) + 1 == half)
                count_in_list(&key, integer_at(&panes_made.array, row));
        }
        drain(&root, is_bare(keys, columns) && columns == 1);
        if (status == DONE) break;
        if (status != FULL || !root.used) break;
        if (chance(2)) {
            Root other = table(4 + (i64)chance(6), WORDS, half > 0);
            elf_root_copy(&root, &other, 1, (i64)chance(3));
            release(&other);
        }
        clear(&root);
    }
    for (i64 i = 0; i < listed; i++)
        if (list[i].count) fail("rows are missing");
    release(&root);
}

int main(int count, char **arguments) {
    i64 rounds = count == 3 ? atoll(arguments[2]) : 0;
    if (rounds < 1) return 2;
    state = (u64)atoll(arguments[1]);
    for (i64 i = 0; i < rounds; i++) {
        one_round();
        leaves_round();
    }
    printf("%lld rounds\n", (long long)rounds);
    return 0;
}
