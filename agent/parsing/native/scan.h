/* The memory that a scan of lines fills, and what every scanner needs. */

#ifndef ELF_SCAN_H
#define ELF_SCAN_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define EXPORTED __attribute__((visibility("default")))
#define ABI 6
#define INLINE_BYTES 12
#define EXACT_INTEGER ((int64_t)1 << 53)

typedef uint8_t u8;

enum kind { NOTHING, BOOLEAN, INTEGER, DOUBLE, TEXT };

/* A place in the objects: its children are `children[first]` to `children[first + count - 1]`; `column` is that of the
 * path that ends here, `time` the one for its value as a time; -1: none. */
typedef struct {
    int32_t first, count, column, time;
} Node;

/* A key below a node, as bytes in the caller's `keys`, and the node it leads to. */
typedef struct {
    int32_t key, length, node;
} Child;

/* Arrow's view of a text: short ones are inside, long ones at `offset` of the block, or of the arena (`buffer` 1). */
typedef struct {
    int32_t length;
    union {
        u8 bytes[INLINE_BYTES];
        struct {
            u8 prefix[4];
            int32_t buffer, offset;
        } outside;
    } at;
} View;

enum comparison { EQUAL, OTHER_THAN, LESS, AT_MOST, MORE, AT_LEAST, BEGINS_WITH };

/* A test of a column: `comparison` with a number, or with the text of `length` bytes at `text` of the caller's `texts`.
 * Tests of one `clause` follow each other: one of them has to hold. `kind` is that of the constant. */
typedef struct {
    int32_t clause, column, comparison, kind, text, length;
    int64_t integer;
    double real;
} Test;

/* The caller's memory. Columns are `capacity` rows apart; `present` has a bit for each kind found in a column. `hard`
 * takes the offset and length of each hard line; `malformed` counts lines that no parser could read. `data` is the
 * block, which has to outlive the scan. `is_strict`: a line of JSON is hard also if it has a key that is below no node, or
 * a value of another kind where children of a node are expected, or if it is malformed.
 *
 * A line that certainly fails a clause of `tests` makes no row: its time, from column `time` (-1: it has none), goes to
 * `passed_over`, and its kinds to `present_over`. It has to have a time, and only kinds in `fitting` of each column. */
typedef struct {
    const Node *nodes;
    const Child *children;
    const u8 *keys;
    int64_t columns, capacity;
    const u8 *data;
    u8 *kinds;
    uint64_t *numbers;
    View *views;
    u8 *arena;
    int64_t arena_used;
    uint32_t *present;
    int64_t *hard;
    int64_t rows, hard_lines, consumed;
    const Test *tests;
    const u8 *texts;
    int64_t tests_count, time;
    const uint32_t *fitting;
    int64_t *passed_over;
    uint32_t *present_over;
    int64_t rows_over, malformed, is_strict;
} Scan;

#define GUESS_DEPTH 4
#define GUESS_PLACES 32

/* A key of the line before in one place of an object: `length` bytes from its quote to its colon, at `key`. */
typedef struct {
    const u8 *key;
    const Node *node;
    const Child *child;
    int32_t length;
} Guess;

/* One line being read; everything lies before `end`. */
typedef struct {
    Scan *scan;
    const u8 *end;
    int64_t row, arena_used;
    Guess (*guesses)[GUESS_PLACES];
} Line;

typedef struct {
    const u8 *start;
    int64_t length;
    int escaped;
} Text;

/* Texts. */

static inline const u8 *over_ascii(const u8 *p, const u8 *end) {
    const uint64_t tops = 0x8080808080808080u;
    uint64_t bytes;
    while (end - p >= 8) {
        memcpy(&bytes, p, 8);
        if (bytes & tops) break;
        p += 8;
    }
    while (p < end && *p < 0x80) p++;
    return p;
}

static inline int is_utf8(const u8 *p, const u8 *end) {
    while ((p = over_ascii(p, end)) < end) {
        u8 first = *p;
        int more;
        u8 low = 0x80, high = 0xBF;
        if (first >= 0xC2 && first <= 0xDF) {
            more = 1;
        } else if (first >= 0xE0 && first <= 0xEF) {
            more = 2;
            if (first == 0xE0) low = 0xA0;
            if (first == 0xED) high = 0x9F;
        } else if (first >= 0xF0 && first <= 0xF4) {
            more = 3;
            if (first == 0xF0) low = 0x90;
            if (first == 0xF4) high = 0x8F;
        } else {
            return 0;
        }
        if (end - p <= more || p[1] < low || p[1] > high) return 0;
        for (int i = 2; i <= more; i++)
            if (p[i] < 0x80 || p[i] > 0xBF) return 0;
        p += more + 1;
    }
    return 1;
}

/* Moves to the first byte that is a quote, a backslash, a control character or not ASCII. */
static inline const u8 *to_special(const u8 *p, const u8 *end) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), blank = _mm_set1_epi8(' ');
    while (end - p >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)p);
        /* Signed: what is not ASCII is below the blank as well. */
        __m128i found = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, slash)),
                                     _mm_cmplt_epi8(bytes, blank));
        int mask = _mm_movemask_epi8(found);
        if (mask) return p + __builtin_ctz((unsigned)mask);
        p += 16;
    }
#else
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    while (end - p >= 8) {
        uint64_t bytes, quote, slash;
        memcpy(&bytes, p, 8);
        quote = bytes ^ ones * '"';
        slash = bytes ^ ones * '\\';
        if (((quote - ones) & ~quote & tops) | ((slash - ones) & ~slash & tops) |
            ((bytes - ones * ' ') & ~bytes & tops) | (bytes & tops))
            break;
        p += 8;
    }
#endif
    while (p < end && *p != '"' && *p != '\\' && *p >= ' ' && *p < 0x80) p++;
    return p;
}

/* Moves to the first byte that ends a word: a blank, a control character or a quote. */
static inline const u8 *to_word_end(const u8 *p, const u8 *end) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), blank = _mm_set1_epi8(' ');
    while (end - p >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)p);
        __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(_mm_min_epu8(bytes, blank), bytes));
        int mask = _mm_movemask_epi8(found);
        if (mask) return p + __builtin_ctz((unsigned)mask);
        p += 16;
    }
#endif
    while (p < end && *p > ' ' && *p != '"') p++;
    return p;
}

/* Values of the line being read. */

static inline void put_kind(Line *line, int32_t column, enum kind kind) {
    line->scan->kinds[column * line->scan->capacity + line->row] = (u8)kind;
}

static inline void put_number(Line *line, int32_t column, enum kind kind, uint64_t bits) {
    put_kind(line, column, kind);
    line->scan->numbers[column * line->scan->capacity + line->row] = bits;
}

/* Copies up to twelve bytes, in one or two steps that may overlap. */
static inline void copy_short(u8 *to, const u8 *from, int64_t length) {
    if (length >= 8) {
        memcpy(to, from, 8);
        memcpy(to + length - 8, from + length - 8, 8);
    } else if (length >= 4) {
        memcpy(to, from, 4);
        memcpy(to + length - 4, from + length - 4, 4);
    } else {
        for (int64_t i = 0; i < length; i++) to[i] = from[i];
    }
}

/* A text that lies in the block, or in the arena. */
static inline void put_text(Line *line, int32_t column, const u8 *bytes, int64_t length, int is_in_arena) {
    View *view = &line->scan->views[column * line->scan->capacity + line->row];
    put_kind(line, column, TEXT);
    memset(view, 0, sizeof *view);
    view->length = (int32_t)length;
    if (length <= INLINE_BYTES) {
        copy_short(view->at.bytes, bytes, length);
        return;
    }
    memcpy(view->at.outside.prefix, bytes, 4);
    view->at.outside.buffer = is_in_arena;
    view->at.outside.offset = (int32_t)(bytes - (is_in_arena ? line->scan->arena : line->scan->data));
}

/* Tests. */

static inline int compares(int order, int32_t comparison) {
    switch (comparison) {
    case EQUAL: return order == 0;
    case OTHER_THAN: return order != 0;
    case LESS: return order < 0;
    case AT_MOST: return order <= 0;
    case MORE: return order > 0;
    case AT_LEAST: return order >= 0;
    default: return 1;
    }
}

static inline int text_may_pass(const Scan *scan, const Test *test, const View *view) {
    const u8 *text = view->at.bytes, *wanted = scan->texts + test->text;
    int64_t shorter = view->length < test->length ? view->length : test->length;
    int order;
    if (view->length > INLINE_BYTES)
        text = (view->at.outside.buffer ? scan->arena : scan->data) + view->at.outside.offset;
    order = memcmp(text, wanted, (size_t)shorter);
    if (test->comparison == BEGINS_WITH) return order == 0 && view->length >= test->length;
    return compares(order ? order : (view->length > test->length) - (view->length < test->length), test->comparison);
}

/* Whether a test may hold for the row being read: only a value of the constant's own sort is looked at, and integers
 * only as far as doubles tell them apart where they are compared with doubles. NULL never passes. */
static inline int may_pass(const Scan *scan, const Test *test) {
    int64_t cell = test->column * scan->capacity + scan->rows;
    uint64_t bits = scan->numbers[cell];
    double left, right = test->kind == INTEGER ? (double)test->integer : test->real;
    int64_t integer = (int64_t)bits;
    u8 kind = scan->kinds[cell];
    if (kind == NOTHING) return 0;
    if (kind == TEXT || test->kind == TEXT)
        return kind != test->kind || text_may_pass(scan, test, &scan->views[cell]);
    if (kind == INTEGER && test->kind == INTEGER)
        return compares((integer > test->integer) - (integer < test->integer), test->comparison);
    if (kind == INTEGER) {
        if (integer > EXACT_INTEGER || integer < -EXACT_INTEGER) return 1;
        left = (double)integer;
    } else if (kind == DOUBLE && (test->kind == DOUBLE || (test->integer <= EXACT_INTEGER && test->integer >= -EXACT_INTEGER))) {
        memcpy(&left, &bits, sizeof left);
    } else {
        return 1;
    }
    return compares((left > right) - (left < right), test->comparison);
}

/* Whether the row being read certainly fails a clause, and nothing else has to be known of it than its time. */
static inline int is_passed_over(const Scan *scan) {
    int fails = 0;
    for (int64_t i = 0; i < scan->tests_count && !fails;) {
        int32_t clause = scan->tests[i].clause;
        int passes = 0;
        for (; i < scan->tests_count && scan->tests[i].clause == clause; i++)
            passes = passes || may_pass(scan, &scan->tests[i]);
        fails = !passes;
    }
    if (!fails) return 0;
    for (int64_t column = 0; column < scan->columns; column++)
        if (!(scan->fitting[column] >> scan->kinds[column * scan->capacity + scan->rows] & 1)) return 0;
    return 1;
}

/* Lines. */

/* Whether the memory takes one more line, whatever it is. */
static inline int has_room(const Scan *scan) { return scan->rows + scan->rows_over + scan->hard_lines < scan->capacity; }

/* The end of a line's content, which begins at `p`: a return before the line break does not belong to it. */
static inline const u8 *content_end(const u8 *p, const u8 *stop) { return stop > p && stop[-1] == '\r' ? stop - 1 : stop; }

static inline void begin_line(Scan *scan) {
    for (int64_t column = 0; column < scan->columns; column++) scan->kinds[column * scan->capacity + scan->rows] = NOTHING;
}

static inline void end_line(Scan *scan, int64_t arena_used) {
    int is_over = scan->tests_count && is_passed_over(scan);
    uint32_t *present = is_over ? scan->present_over : scan->present;
    for (int64_t column = 0; column < scan->columns; column++)
        present[column] |= 1u << scan->kinds[column * scan->capacity + scan->rows];
    if (is_over) {
        if (scan->time >= 0)
            scan->passed_over[scan->rows_over] = (int64_t)scan->numbers[scan->time * scan->capacity + scan->rows];
        scan->rows_over++;
        return;
    }
    scan->arena_used = arena_used;
    scan->rows++;
}

static inline void put_hard_line(Scan *scan, const u8 *p, const u8 *stop) {
    scan->hard[2 * scan->hard_lines] = p - scan->data;
    scan->hard[2 * scan->hard_lines + 1] = stop - p;
    scan->hard_lines++;
}

#endif
