/* Counts lines, and gives scanned columns away as arrays of Arrow, which whoever takes them owns. */

#include "scan.h"

EXPORTED int32_t elf_abi(void) { return ABI * 1000 + (int32_t)sizeof(Scan); }

/* The number of line breaks in a block. */
EXPORTED int64_t elf_count_lines(const u8 *data, int64_t length) {
    int64_t lines = 0, place = 0;
    while (place < length) {
        int64_t end = length - place > 255 * 64 ? place + 255 * 64 : length;
        u8 counts[64] = {0}; /* one for each lane, so that the compiler adds many at once; none can exceed 255 */
        for (; end - place >= 64; place += 64)
            for (int lane = 0; lane < 64; lane++) counts[lane] += data[place + lane] == '\n';
        for (int lane = 0; lane < 64; lane++) lines += counts[lane];
        for (; place < end; place++) lines += data[place] == '\n';
    }
    return lines;
}

/* Arrow's C data interface: https://arrow.apache.org/docs/format/CDataInterface.html */

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

static void release_schema(struct ArrowSchema *schema) { schema->release = NULL; }

static void release_array(struct ArrowArray *array) {
    for (int64_t i = 0; i < array->n_buffers; i++) free((void *)array->buffers[i]);
    free(array->buffers);
    array->release = NULL;
}

/* Values in memory of their own. */
static void *copied(const void *from, int64_t bytes) {
    void *to = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (to && bytes > 0) memcpy(to, from, (size_t)bytes);
    return to;
}

static u8 *bits_of(const u8 *kinds, const uint64_t *numbers, u8 kind, int64_t rows, int64_t *unset) {
    u8 *bits = calloc((size_t)(rows / 8 + 1), 1);
    *unset = 0;
    for (int64_t row = 0; bits && row < rows; row++) {
        int is_set = kinds[row] == kind && (!numbers || numbers[row]);
        bits[row / 8] |= (u8)(is_set << (row % 8));
        *unset += !is_set;
    }
    return bits;
}

/* The long texts of a column one after the other; its views, which become theirs, lead to them. */
static u8 *gathered(const Scan *scan, const u8 *kinds, View *views, int64_t *size) {
    u8 *texts, *to;
    for (int64_t row = 0; row < scan->rows; row++) {
        if (kinds[row] != TEXT) memset(&views[row], 0, sizeof(View));
        if (views[row].length > INLINE_BYTES) *size += views[row].length;
    }
    texts = to = malloc(*size ? (size_t)*size : 1);
    for (int64_t row = 0; texts && row < scan->rows; row++) {
        View *view = &views[row];
        if (view->length <= INLINE_BYTES) continue;
        memcpy(to, (view->at.outside.buffer ? scan->arena : scan->data) + view->at.outside.offset, (size_t)view->length);
        view->at.outside.buffer = 0;
        view->at.outside.offset = (int32_t)(to - texts);
        to += view->length;
    }
    return texts;
}

/* Makes the Arrow array of a column's values of one kind, NULL in all other rows; returns 0 for lack of memory. Where
 * there are no other rows there are no bits of NULLs, the first buffer. */
EXPORTED int32_t elf_export(const Scan *scan, int64_t column, int32_t kind, struct ArrowArray *array,
                            struct ArrowSchema *schema) {
    static const char *formats[] = {"n", "b", "l", "g", "vu"};
    const u8 *kinds = scan->kinds + column * scan->capacity;
    const uint64_t *numbers = scan->numbers + column * scan->capacity;
    int64_t nulls = 0, unset, count = kind == TEXT ? 4 : 2;
    int is_whole = scan->present[column] == 1u << kind;
    const void **buffers = calloc((size_t)count, sizeof *buffers);
    if (!buffers) return 0;
    memset(array, 0, sizeof *array);
    memset(schema, 0, sizeof *schema);
    array->buffers = buffers;
    array->n_buffers = count;
    array->length = scan->rows;
    array->release = release_array;
    if (!is_whole) buffers[0] = bits_of(kinds, NULL, (u8)kind, scan->rows, &nulls);
    if (kind == BOOLEAN) {
        buffers[1] = bits_of(kinds, numbers, (u8)kind, scan->rows, &unset);
    } else if (kind == TEXT) {
        View *views = copied(scan->views + column * scan->capacity, scan->rows * (int64_t)sizeof(View));
        int64_t size = 0;
        buffers[1] = views;
        buffers[2] = views ? gathered(scan, kinds, views, &size) : NULL;
        buffers[3] = copied(&size, sizeof size);
    } else {
        buffers[1] = copied(numbers, scan->rows * (int64_t)sizeof *numbers);
    }
    for (int64_t i = is_whole; i < count; i++)
        if (!buffers[i]) {
            release_array(array);
            return 0;
        }
    array->null_count = nulls;
    schema->format = formats[kind];
    schema->name = "";
    schema->flags = 2;
    schema->release = release_schema;
    return 1;
}
