/* Drives the root table and the index of leaves with random blocks, under sanitizers, beside a list of all groups.
 *
 *     fuzz_tree SEED ROUNDS
 *
 * Keys are short and long, NULL, with escapes, of one column and of several; views lead outside their buffers now and
 * then; tables and arenas are small; keys share hashes in part. Ends with 1 where the table and the list differ.
 */

#include "../../cbt/native/leaf.c"
#include "../../cbt/native/root.c"
#include "../../cbt/native/texts.c"

#include <stdio.h>

#define ROWS 300
#define ENTRIES 128
#define ARENA 2048
#define PANES 4
#define TEXT 4096
#define LISTED 4096

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
static const u64 secret[2] = {7, 9};

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

/* Takes the table's groups off the list, in order, and looks them up in an index as a leaf has. */
static void drain(Root *root, i64 bare) {
    static u64 places[ENTRIES], hashes[ENTRIES], words[ENTRIES * 8], merged[ENTRIES];
    static u32 checks[ENTRIES], merged_checks[ENTRIES];
    static u8 valid[ENTRIES], text[ARENA + ENTRIES * INLINE_KEY];
    static uint16_t slots[ENTRIES];
    static i64 parts[4 * PANES], ends[PANES], lengths[ENTRIES], found[4][ENTRIES], text_ends[ENTRIES];
    i64 first = 0, used = root->used;
    elf_root_order(root, secret, places, parts, ends);
    for (i64 pane = 0; pane < root->panes_used; first = ends[pane++]) {
        i64 count = ends[pane] - first, there, size;
        Index index = {merged, merged_checks, slots, 0, 2}, none = {0};
        size = elf_root_emit(root, places + first, count, secret, hashes, checks, words, (i32)bare, valid, lengths, text);
        for (i64 i = 0; i < count; i++) {
            i64 at = 0;
            if (i && (hashes[i] < hashes[i - 1] || (hashes[i] == hashes[i - 1] && checks[i] < checks[i - 1])))
                fail("groups are not in order");
            while (at < listed && (list[at].hash != hashes[i] || list[at].check != checks[i] ||
                                   list[at].pane != root->panes[pane])) at++;
            if (at == listed) fail("a group is not in the list");
            if (list[at].count < words[i]) fail("a group has counted more rows than there were");
            list[at].count -= words[i];
            found[0][i] = i;
            found[1][i] = 0;
        }
        elf_merge(&index, hashes, checks, found[0], found[1], count, &none, 0, merged, merged_checks, slots, 2);
        index.count = count;
        there = elf_find(&index, hashes, checks, NULL, count, found[0], found[1], found[2], found[3]);
        if (there != count) fail("the index lacks an identity");
        for (i64 i = 0; i < count; i++) hashes[i] += chance(2);
        elf_find(&index, hashes, checks, NULL, count, found[0], found[1], found[2], found[3]);
        if (bare && count) {
            Array array;
            struct Schema schema;
            i64 end = 0;
            for (i64 i = 0; i < count; i++) text_ends[i] = end += lengths[i];
            if (end != size) fail("texts have other lengths");
            if (elf_texts(text, text_ends, valid, found[0], there ? 1 : 0, &array, &schema)) array.release(&array);
            if (elf_texts(text, text_ends, valid, NULL, count, &array, &schema)) array.release(&array);
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

static void one_round(void) {
    static const char formats[] = "nvlb";
    i64 rows = 1 + (i64)chance(ROWS), half = (i64)chance(3), columns = (i64)chance(4);
    Column keys[3];
    Source sources[3] = {{COUNT_ROWS, 0, {0}}, {0}, {0}};
    Root root = table(4 + (i64)chance(6), 5, half > 0);
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
    sources[1] = (Source){(i32)(1 + chance(6)), 1, {&argument.array, "lg"[chance(2)], 0}};
    if (sources[1].operation == SUM_DOUBLES) {
        sources[1].column.format = 'g';
        for (i64 i = 0; i < ROWS + 8; i++) {
            double value = (double)((i64)chance(1000) - 500) / 8;
            memcpy(&argument.numbers[i], &value, 8);
        }
        if (!elf_are_ordinary(&argument.array)) fail("ordinary doubles are not");
    } else if (sources[1].operation <= SUM_UNITS) {
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
            Root other = table(4 + (i64)chance(6), 5, half > 0);
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
    for (i64 i = 0; i < rounds; i++) one_round();
    printf("%lld rounds\n", (long long)rounds);
    return 0;
}
