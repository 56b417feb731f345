/* Searches for lines on which the native scanners misbehave: mutates lines, and scans each block in memory of exactly its
 * size. Built with AddressSanitizer and UBSan by test_native_fuzz.py; arguments: `json` or `combined`, seed, number of
 * lines, a file of plain lines. */

#include "../../agent/parsing/native/columns.c"
#include "../../agent/parsing/native/scan_combined.c"
#include "../../agent/parsing/native/scan_json.c"

#include <stdio.h>

#define LINES_MAX 4096
#define LINE_MAX 8192
#define JSON_COLUMNS 5

static uint64_t state;

static uint64_t draw(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? state % below : 0;
}

static const char *bits[] = {"\"", "\\", "{", "}", "[", "]", ",", ":", "\\u00e4", "\\ud83d", "\\u", "1e9", "-", "0", ".", "null", "tru",
                             "\xc3\xa4", "\xed\xa0\x80", "\xf0\x9f\x98\x80", "\xff", "\r", "\n", " ", "\"a\":", "{\"b\":{\"c\":", "99999999999999999999",
                             "[", " - ", "] \"", "\" 200 ", " HTTP/1.1", "10/Oct/2000:13:55:36 -0700", "?"};

/* One block: lines of the file, some of them changed. Returns its size. */
static int64_t mutate(u8 *block, u8 **lines, const int64_t *lengths, int64_t count, int64_t *made) {
    int64_t size = 0, wanted = 1 + (int64_t)draw(8);
    for (int64_t n = 0; n < wanted; n++, (*made)++) {
        int64_t from = (int64_t)draw((uint64_t)count), length = lengths[from];
        u8 *line = block + size;
        memcpy(line, lines[from], (size_t)length);
        for (uint64_t changes = draw(5); changes && length; changes--) {
            int64_t place = (int64_t)draw((uint64_t)length);
            const char *bit = bits[draw(sizeof bits / sizeof *bits)];
            int64_t taken;
            switch (draw(5)) {
            case 0:
                line[place] = (u8)draw(256);
                break;
            case 1:
                taken = 1 + (int64_t)draw((uint64_t)(length - place));
                memmove(line + place, line + place + taken, (size_t)(length - place - taken));
                length -= taken;
                break;
            case 2:
                length = place;
                break;
            case 3:
                taken = (int64_t)draw(64);
                if (taken > length - place) taken = length - place;
                if (length + taken > 2 * LINE_MAX) break;
                memmove(line + place + taken, line + place, (size_t)(length - place));
                length += taken;
                break;
            default:
                taken = (int64_t)strlen(bit);
                if (length + taken > 2 * LINE_MAX) break;
                memmove(line + place + taken, line + place, (size_t)(length - place));
                memcpy(line + place, bit, (size_t)taken);
                length += taken;
            }
        }
        size += length;
        if (n + 1 < wanted || draw(2)) block[size++] = '\n';
    }
    return size;
}

static void *exactly(int64_t bytes) { return malloc(bytes ? (size_t)bytes : 1); }

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* Memory for one scan of a block, none of it larger than scanners may expect. */
static Scan memory_for(const u8 *data, int64_t size, int64_t columns, int64_t arena) {
    Scan scan = {.columns = columns, .capacity = 1};
    for (int64_t i = 0; i < size; i++) scan.capacity += data[i] == '\n';
    scan.kinds = exactly(columns * scan.capacity);
    memset(scan.kinds, 0, (size_t)(columns * scan.capacity));
    scan.numbers = exactly(columns * scan.capacity * 8);
    scan.views = exactly(columns * scan.capacity * (int64_t)sizeof(View));
    scan.arena = exactly(arena);
    scan.present = calloc((size_t)columns, sizeof *scan.present);
    scan.hard = exactly(2 * scan.capacity * 8);
    scan.passed_over = exactly(scan.capacity * 8);
    scan.present_over = calloc((size_t)columns, sizeof *scan.present_over);
    if (!draw(8)) scan.capacity = (int64_t)draw((uint64_t)scan.capacity); /* less than there is */
    return scan;
}

static void check_texts(const struct ArrowArray *array) {
    const View *views = array->buffers[1];
    const int64_t *size = array->buffers[3];
    for (int64_t row = 0; row < array->length; row++) {
        int64_t length = views[row].length, offset = views[row].at.outside.offset;
        const u8 *text = views[row].at.bytes;
        if (length > INLINE_BYTES) {
            check(views[row].at.outside.buffer == 0 && offset >= 0 && offset + length <= *size, "bounds");
            text = (const u8 *)array->buffers[2] + offset;
            check(!memcmp(text, views[row].at.outside.prefix, 4), "prefix");
        }
        check(length >= 0 && is_utf8(text, text + length), "UTF-8");
    }
}

static void check_scan(Scan *scan, int64_t size, int64_t columns) {
    check(scan->rows + scan->rows_over + scan->hard_lines <= scan->capacity && scan->arena_used <= size, "counts");
    check(scan->consumed <= size, "consumed");
    for (int64_t row = 0; scan->time >= 0 && row < scan->rows_over; row++)
        check(scan->passed_over[row] >= TIME_MS_MIN && scan->passed_over[row] <= TIME_MS_MAX, "times");
    for (int64_t line = 0; line < scan->hard_lines; line++)
        check(scan->hard[2 * line] >= 0 && scan->hard[2 * line] + scan->hard[2 * line + 1] <= size, "hard lines");
    for (int column = 0; column < columns; column++)
        for (int kind = BOOLEAN; kind <= TEXT; kind++) {
            struct ArrowArray array;
            struct ArrowSchema schema;
            if (!(scan->present[column] >> kind & 1)) continue;
            check(elf_export(scan, column, kind, &array, &schema), "memory");
            if (kind == TEXT) check_texts(&array);
            array.release(&array);
        }
    free(scan->passed_over), free(scan->present_over), free((void *)scan->texts);
    free(scan->kinds), free(scan->numbers), free(scan->views), free(scan->arena), free(scan->present), free(scan->hard);
}

/* Some of these tests, or none: lines that fail them are passed over. Their texts have memory of exactly their size. */
static void add_tests(Scan *scan, int32_t time, int32_t columns) {
    static Test tests[4];
    static uint32_t fitting[16];
    static const char texts[] = "/shopfrankof more than twelve bytes";
    int32_t clause = 0;
    for (int i = 0; i < 4; i++) {
        Test *test = &tests[i];
        clause += draw(2) > 0;
        *test = (Test){clause, (int32_t)draw((uint64_t)columns), (int32_t)draw(7), INTEGER + (int32_t)draw(3), 0, 0, 0, 0.0};
        test->integer = (int64_t)draw(500) - 100;
        test->real = (double)test->integer / 4;
        test->text = (int32_t)draw(12);
        test->length = (int32_t)draw(sizeof texts - 12);
    }
    for (int i = 0; i < 16; i++) fitting[i] = i == time ? 1u << INTEGER : (uint32_t)draw(32);
    scan->tests = tests, scan->tests_count = (int64_t)draw(5), scan->time = draw(4) ? time : -1, scan->fitting = fitting;
    scan->texts = exactly(sizeof texts);
    memcpy((void *)scan->texts, texts, sizeof texts);
}

static void scan_json_block(const u8 *data, int64_t size) {
    static const Node nodes[] = {{0, 3, -1, -1}, {0, 0, 0, -1}, {3, 2, -1, -1}, {0, 0, 1, 4}, {0, 0, 2, -1},
                                 {5, 1, -1, -1}, {0, 0, 3, -1}};
    static const Child children[] = {{0, 1, 1}, {1, 1, 2}, {4, 4, 3}, {2, 1, 4}, {3, 1, 5}, {2, 1, 6}};
    Scan scan = memory_for(data, size, JSON_COLUMNS, size);
    scan.nodes = nodes, scan.children = children, scan.keys = (const u8 *)"abcdtime";
    scan.is_strict = !draw(4);
    add_tests(&scan, JSON_COLUMNS - 1, JSON_COLUMNS);
    elf_scan_json(&scan, data, size);
    check_scan(&scan, size, JSON_COLUMNS);
}

static void scan_combined_block(const u8 *data, int64_t size) {
    int32_t places[FIELDS], columns = 1;
    for (int field = 0; field < FIELDS; field++) places[field] = field == TIME ? 0 : draw(3) ? columns++ : -1;
    Scan scan = memory_for(data, size, columns, 0);
    add_tests(&scan, 0, columns);
    elf_scan_combined(&scan, places, data, size);
    check_scan(&scan, size, columns);
}

/* Scans a copy that ends where its memory does. */
static void scan_block(int is_json, const u8 *from, int64_t size) {
    u8 *data = exactly(size);
    memcpy(data, from, (size_t)size);
    (is_json ? scan_json_block : scan_combined_block)(data, size);
    free(data);
}

int main(int argc, char **argv) {
    static u8 *lines[LINES_MAX], block[16 * 2 * LINE_MAX], line[LINE_MAX];
    static int64_t lengths[LINES_MAX];
    int64_t count = 0, made = 0, wanted;
    FILE *file = argc == 5 ? fopen(argv[4], "rb") : NULL;
    if (!file) return 2;
    state = strtoull(argv[2], NULL, 10) * 2654435761u + 1;
    wanted = strtoll(argv[3], NULL, 10);
    while (count < LINES_MAX && fgets((char *)line, LINE_MAX, file)) {
        lengths[count] = (int64_t)strcspn((char *)line, "\n");
        lines[count] = exactly(lengths[count]);
        memcpy(lines[count], line, (size_t)lengths[count]);
        count++;
    }
    fclose(file);
    if (!count) return 2;
    while (made < wanted) scan_block(argv[1][0] == 'j', block, mutate(block, lines, lengths, count, &made));
    printf("%lld lines\n", (long long)made);
    for (int64_t n = 0; n < count; n++) free(lines[n]);
    return 0;
}
