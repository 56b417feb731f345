/* Scans JSON lines into columns: the plain lines of a block, and only the paths that are needed.
 *
 * Sound, not complete: a line that is anything but plain is listed as hard, and the exact parser in Python decides what
 * it means. Plain is one object between the line's ends, without white space around it, of valid JSON and UTF-8, no
 * deeper than DEPTH_MAX, whose keys have no escapes and, on needed paths, come once; whose needed values are null,
 * booleans, integers of at most 18 digits, numbers that a double holds exactly rounded by one operation, and texts
 * without NUL or surrogates. Reads nothing beyond the block, writes nothing beyond what the caller gives, allocates
 * nothing but in `elf_export`.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define EXPORTED __attribute__((visibility("default")))
#define ABI 1
#define DEPTH_MAX 64
#define CHILDREN_MAX 64
#define DIGITS_MAX 18
#define EXACT_INTEGER ((uint64_t)1 << 53)
#define EXACT_POWER 22
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

/* Arrow's view of a text: short ones are inside, long ones are in the arena at `offset`. */
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
 * takes the offset and length of each hard line. */
typedef struct {
    const Node *nodes;
    const Child *children;
    const u8 *keys;
    int64_t columns, capacity;
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

static int is_utf8(const u8 *p, const u8 *end) {
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

static int hex(u8 c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The code of the four digits behind \u; -1 if they are none. */
static int32_t code_at(const u8 *p, const u8 *end) {
    int32_t code = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex(p[i]);
        if (digit < 0) return -1;
        code = code << 4 | digit;
    }
    return code;
}

/* Moves to the first byte that is a quote, a backslash, a control character or not ASCII. */
static const u8 *to_special(const u8 *p, const u8 *end) {
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

/* Reads a text from behind its opening quote to behind its closing one; NULL if it is not plain. */
static const u8 *read_text(const u8 *p, const u8 *end, Text *text) {
    int beyond_ascii = 0;
    text->start = p;
    text->escaped = 0;
    for (;;) {
        p = to_special(p, end);
        if (p >= end || *p < ' ') return NULL;
        if (*p == '"') break;
        if (*p >= 0x80) {
            beyond_ascii = 1;
            while (p < end && *p >= 0x80) p++;
            continue;
        }
        if (end - p < 2) return NULL;
        text->escaped = 1;
        switch (p[1]) {
        case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
            p += 2;
            break;
        case 'u': {
            int32_t code = code_at(p + 2, end);
            if (code <= 0 || (code >= 0xD800 && code <= 0xDFFF)) return NULL;
            p += 6;
            break;
        }
        default:
            return NULL;
        }
    }
    text->length = p - text->start;
    if (beyond_ascii && !is_utf8(text->start, p)) return NULL;
    return p + 1;
}

/* Writes what a text with escapes says; it is never longer than the text. Returns its length. */
static int64_t unescape(const Text *text, u8 *to) {
    const u8 *p = text->start, *end = p + text->length;
    u8 *out = to;
    while (p < end) {
        if (*p != '\\') {
            *out++ = *p++;
            continue;
        }
        switch (p[1]) {
        case 'b': *out++ = '\b'; break;
        case 'f': *out++ = '\f'; break;
        case 'n': *out++ = '\n'; break;
        case 'r': *out++ = '\r'; break;
        case 't': *out++ = '\t'; break;
        case 'u': {
            int32_t code = code_at(p + 2, end);
            if (code < 0x80) {
                *out++ = (u8)code;
            } else if (code < 0x800) {
                *out++ = (u8)(0xC0 | code >> 6);
                *out++ = (u8)(0x80 | (code & 0x3F));
            } else {
                *out++ = (u8)(0xE0 | code >> 12);
                *out++ = (u8)(0x80 | (code >> 6 & 0x3F));
                *out++ = (u8)(0x80 | (code & 0x3F));
            }
            p += 4;
            break;
        }
        default: *out++ = p[1];
        }
        p += 2;
    }
    return out - to;
}

/* Values that are needed. */

static void put_kind(Line *line, int32_t column, enum kind kind) {
    line->scan->kinds[column * line->scan->capacity + line->row] = (u8)kind;
}

static void put_number(Line *line, int32_t column, enum kind kind, uint64_t bits) {
    put_kind(line, column, kind);
    line->scan->numbers[column * line->scan->capacity + line->row] = bits;
}

/* The arena has room: all texts of a block together are shorter than the block. */
static void put_text(Line *line, int32_t column, const Text *text) {
    View *view = &line->scan->views[column * line->scan->capacity + line->row];
    u8 *arena = line->scan->arena + line->arena_used;
    const u8 *bytes = text->start;
    int64_t length = text->length;
    put_kind(line, column, TEXT);
    memset(view, 0, sizeof *view);
    if (text->escaped) {
        length = unescape(text, arena);
        bytes = arena;
    }
    view->length = (int32_t)length;
    if (length <= INLINE_BYTES) {
        memcpy(view->at.bytes, bytes, (size_t)length);
        return;
    }
    if (bytes != arena) memcpy(arena, bytes, (size_t)length);
    memcpy(view->at.outside.prefix, arena, 4);
    view->at.outside.offset = (int32_t)line->arena_used;
    line->arena_used += length;
}

/* Reads a number. With `column` >= -1 it must be plain; it is kept if `column` >= 0. */
static const u8 *read_number(Line *line, const u8 *p, int32_t column) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const u8 *end = line->end, *digits;
    int negative = 0, real = 0;
    uint64_t value = 0;
    int64_t count, scale = 0;
    if (p < end && *p == '-') {
        negative = 1;
        p++;
    }
    digits = p;
    while (p < end && (u8)(*p - '0') < 10) value = value * 10 + (u8)(*p++ - '0');
    count = p - digits;
    if (!count || (count > 1 && *digits == '0')) return NULL;
    if (p < end && *p == '.') {
        const u8 *fraction = ++p;
        real = 1;
        while (p < end && (u8)(*p - '0') < 10) value = value * 10 + (u8)(*p++ - '0');
        if (p == fraction) return NULL;
        scale = -(p - fraction);
        count -= scale;
    }
    if (p < end && (*p | 0x20) == 'e') {
        const u8 *exponent;
        int shrinks = 0;
        int64_t power = 0;
        real = 1;
        if (++p < end && (*p == '+' || *p == '-')) shrinks = *p++ == '-';
        exponent = p;
        while (p < end && (u8)(*p - '0') < 10) {
            if (power < 10000) power = power * 10 + (*p - '0');
            p++;
        }
        if (p == exponent) return NULL;
        scale += shrinks ? -power : power;
    }
    if (column < -1) return p;
    if (count > DIGITS_MAX) return NULL;
    if (!real) {
        if (negative && !value) return NULL;
        if (column >= 0) put_number(line, column, INTEGER, negative ? (uint64_t)0 - value : value);
        return p;
    }
    if (value > EXACT_INTEGER || scale < -EXACT_POWER || scale > EXACT_POWER) return NULL;
    if (column >= 0) {
        double number = (double)value;
        uint64_t bits;
        number = scale < 0 ? number / powers[-scale] : number * powers[scale];
        if (negative) number = -number;
        memcpy(&bits, &number, sizeof bits);
        put_number(line, column, DOUBLE, bits);
    }
    return p;
}

/* Values of any kind. */

static const u8 *over_blanks(const u8 *p, const u8 *end) {
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r')) p++;
    return p;
}

static const u8 *over_word(const u8 *p, const u8 *end, const char *word) {
    size_t length = strlen(word);
    return (size_t)(end - p) >= length && !memcmp(p, word, length) ? p + length : NULL;
}

static const u8 *over_value(Line *line, const u8 *p, int depth);

/* Skips a list or an object from behind its opening bracket. */
static const u8 *over_parts(Line *line, const u8 *p, int depth, int is_object) {
    const u8 *end = line->end;
    u8 closing = is_object ? '}' : ']';
    Text key;
    if (depth >= DEPTH_MAX) return NULL;
    p = over_blanks(p, end);
    if (p < end && *p == closing) return p + 1;
    for (;;) {
        if (is_object) {
            p = over_blanks(p, end);
            if (p >= end || *p != '"' || !(p = read_text(p + 1, end, &key))) return NULL;
            p = over_blanks(p, end);
            if (p >= end || *p++ != ':') return NULL;
        }
        if (!(p = over_value(line, p, depth + 1))) return NULL;
        p = over_blanks(p, end);
        if (p >= end) return NULL;
        if (*p == closing) return p + 1;
        if (*p++ != ',') return NULL;
    }
}

static const u8 *over_value(Line *line, const u8 *p, int depth) {
    const u8 *end = line->end;
    Text text;
    p = over_blanks(p, end);
    if (p >= end) return NULL;
    switch (*p) {
    case '"': return read_text(p + 1, end, &text);
    case '{': return over_parts(line, p + 1, depth, 1);
    case '[': return over_parts(line, p + 1, depth, 0);
    case 't': return over_word(p, end, "true");
    case 'f': return over_word(p, end, "false");
    case 'n': return over_word(p, end, "null");
    default: return read_number(line, p, -2);
    }
}

static const u8 *read_object(Line *line, const u8 *p, const Node *node, int depth);

/* Reads the value at a node: on a needed path, or above one. */
static const u8 *read_value(Line *line, const u8 *p, const Node *node, int depth) {
    const u8 *end = line->end;
    int32_t column = node->column;
    Text text;
    p = over_blanks(p, end);
    if (p >= end) return NULL;
    switch (*p) {
    case '"':
        p = read_text(p + 1, end, &text);
        if (p && column >= 0) put_text(line, column, &text);
        return p;
    case '{':
        return column >= 0 ? NULL : read_object(line, p + 1, node, depth);
    case '[':
        return NULL;
    case 't':
        if (column >= 0) put_number(line, column, BOOLEAN, 1);
        return over_word(p, end, "true");
    case 'f':
        if (column >= 0) put_number(line, column, BOOLEAN, 0);
        return over_word(p, end, "false");
    case 'n':
        return over_word(p, end, "null");
    default:
        return read_number(line, p, column);
    }
}

static const Child *child_of(const Scan *scan, const Node *node, const Text *key) {
    for (int32_t i = node->first; i < node->first + node->count; i++) {
        const Child *child = &scan->children[i];
        if (child->length == key->length && !memcmp(scan->keys + child->key, key->start, (size_t)key->length))
            return child;
    }
    return NULL;
}

/* Reads an object from behind its opening brace. */
static const u8 *read_object(Line *line, const u8 *p, const Node *node, int depth) {
    const u8 *end = line->end;
    const Scan *scan = line->scan;
    uint64_t seen = 0;
    Text key;
    if (depth >= DEPTH_MAX) return NULL;
    p = over_blanks(p, end);
    if (p < end && *p == '}') return p + 1;
    for (;;) {
        const Child *child;
        p = over_blanks(p, end);
        if (p >= end || *p != '"' || !(p = read_text(p + 1, end, &key)) || key.escaped) return NULL;
        p = over_blanks(p, end);
        if (p >= end || *p++ != ':') return NULL;
        child = child_of(scan, node, &key);
        if (child) {
            uint64_t bit = (uint64_t)1 << (child - scan->children - node->first);
            if (seen & bit) return NULL;
            seen |= bit;
            p = read_value(line, p, &scan->nodes[child->node], depth + 1);
        } else {
            p = over_value(line, p, depth + 1);
        }
        if (!p) return NULL;
        p = over_blanks(p, end);
        if (p >= end) return NULL;
        if (*p == '}') return p + 1;
        if (*p++ != ',') return NULL;
    }
}

/* Lines. */

static int read_line(Scan *scan, const u8 *p, const u8 *end) {
    Line line = {scan, end, scan->rows, scan->arena_used};
    for (int64_t column = 0; column < scan->columns; column++) scan->kinds[column * scan->capacity + scan->rows] = NOTHING;
    if (*p != '{' || read_object(&line, p + 1, &scan->nodes[0], 0) != end) return 0;
    for (int64_t column = 0; column < scan->columns; column++)
        scan->present[column] |= 1u << scan->kinds[column * scan->capacity + scan->rows];
    scan->arena_used = line.arena_used;
    scan->rows++;
    return 1;
}

EXPORTED int32_t elf_abi(void) { return ABI * 1000 + (int32_t)sizeof(Scan); }

/* Scans whole lines. The caller's memory has a row for each line break and one more. */
EXPORTED void elf_scan_json(Scan *scan, const u8 *data, int64_t length) {
    const u8 *p = data, *end = data + length;
    while (p < end && scan->rows < scan->capacity && scan->hard_lines < scan->capacity) {
        const u8 *newline = memchr(p, '\n', (size_t)(end - p));
        const u8 *stop = newline ? newline : end;
        const u8 *last = stop > p && stop[-1] == '\r' ? stop - 1 : stop;
        if (last > p && !read_line(scan, p, last)) {
            scan->hard[2 * scan->hard_lines] = p - data;
            scan->hard[2 * scan->hard_lines + 1] = stop - p;
            scan->hard_lines++;
        }
        p = newline ? newline + 1 : end;
    }
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

/* Makes the Arrow array of a column's values of one kind, NULL in all other rows; returns 0 for lack of memory. */
EXPORTED int32_t elf_export(const Scan *scan, int64_t column, int32_t kind, struct ArrowArray *array,
                            struct ArrowSchema *schema) {
    static const char *formats[] = {"n", "b", "l", "g", "vu"};
    const u8 *kinds = scan->kinds + column * scan->capacity;
    const uint64_t *numbers = scan->numbers + column * scan->capacity;
    int64_t nulls, unset, count = kind == TEXT ? 4 : 2;
    const void **buffers = calloc((size_t)count, sizeof *buffers);
    if (!buffers) return 0;
    memset(array, 0, sizeof *array);
    memset(schema, 0, sizeof *schema);
    array->buffers = buffers;
    array->n_buffers = count;
    array->length = scan->rows;
    array->release = release_array;
    buffers[0] = bits_of(kinds, NULL, (u8)kind, scan->rows, &nulls);
    if (kind == BOOLEAN) {
        buffers[1] = bits_of(kinds, numbers, (u8)kind, scan->rows, &unset);
    } else if (kind == TEXT) {
        int64_t size = scan->arena_used;
        View *views = copied(scan->views + column * scan->capacity, scan->rows * (int64_t)sizeof(View));
        for (int64_t row = 0; views && row < scan->rows; row++)
            if (kinds[row] != TEXT) memset(&views[row], 0, sizeof(View));
        buffers[1] = views;
        buffers[2] = copied(scan->arena, size);
        buffers[3] = copied(&size, sizeof size);
    } else {
        buffers[1] = copied(numbers, scan->rows * (int64_t)sizeof *numbers);
    }
    for (int64_t i = 0; i < count; i++)
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
