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
#define ABI 4
#define INLINE_BYTES 12

typedef uint8_t u8;

enum kind { NOTHING, BOOLEAN, INTEGER, DOUBLE, TEXT };

/* A place in the objects: its children are `children[first]` to `children[first + count - 1]`; `column` is the index of
 * the path that ends here, or -1. */
typedef struct {
    int32_t first, count, column;
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

/* The caller's memory. Columns are `capacity` rows apart; `present` has a bit for each kind found in a column. `hard`
 * takes the offset and length of each hard line. `data` is the block, which has to outlive the scan. */
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
    int64_t rows, hard_lines;
} Scan;

/* One line being read; everything lies before `end`. */
typedef struct {
    Scan *scan;
    const u8 *end;
    int64_t row, arena_used;
} Line;

typedef struct {
    const u8 *start;
    int64_t length;
    int escaped;
} Text;

/* Texts. */

static inline int is_utf8(const u8 *p, const u8 *end) {
    while (p < end) {
        u8 first = *p;
        int more;
        u8 low = 0x80, high = 0xBF;
        if (first < 0x80) {
            p++;
            continue;
        }
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

/* Values of the line being read. */

static inline void put_kind(Line *line, int32_t column, enum kind kind) {
    line->scan->kinds[column * line->scan->capacity + line->row] = (u8)kind;
}

static inline void put_number(Line *line, int32_t column, enum kind kind, uint64_t bits) {
    put_kind(line, column, kind);
    line->scan->numbers[column * line->scan->capacity + line->row] = bits;
}

/* A text that lies in the block, or in the arena. */
static inline void put_text(Line *line, int32_t column, const u8 *bytes, int64_t length, int is_in_arena) {
    View *view = &line->scan->views[column * line->scan->capacity + line->row];
    put_kind(line, column, TEXT);
    memset(view, 0, sizeof *view);
    view->length = (int32_t)length;
    if (length <= INLINE_BYTES) {
        memcpy(view->at.bytes, bytes, (size_t)length);
        return;
    }
    memcpy(view->at.outside.prefix, bytes, 4);
    view->at.outside.buffer = is_in_arena;
    view->at.outside.offset = (int32_t)(bytes - (is_in_arena ? line->scan->arena : line->scan->data));
}

/* Lines. */

/* The end of a line's content, which begins at `p`: a return before the line break does not belong to it. */
static inline const u8 *content_end(const u8 *p, const u8 *stop) { return stop > p && stop[-1] == '\r' ? stop - 1 : stop; }

static inline void begin_line(Scan *scan) {
    for (int64_t column = 0; column < scan->columns; column++) scan->kinds[column * scan->capacity + scan->rows] = NOTHING;
}

static inline void end_line(Scan *scan, int64_t arena_used) {
    for (int64_t column = 0; column < scan->columns; column++)
        scan->present[column] |= 1u << scan->kinds[column * scan->capacity + scan->rows];
    scan->arena_used = arena_used;
    scan->rows++;
}

static inline void put_hard_line(Scan *scan, const u8 *p, const u8 *stop) {
    scan->hard[2 * scan->hard_lines] = p - scan->data;
    scan->hard[2 * scan->hard_lines + 1] = stop - p;
    scan->hard_lines++;
}

#endif
