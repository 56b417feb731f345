/* Scans JSON lines into columns: the plain lines of a block, and only the paths that are needed.
 *
 * Sound, not complete: a line that is anything but plain is listed as hard, and the exact parser in Python decides what
 * it means. Plain is one object between the line's ends, without white space around it, of valid JSON and UTF-8, no
 * deeper than DEPTH_MAX, whose keys have no escapes and, on needed paths, come once; whose needed values are null,
 * booleans, integers of at most 18 digits, numbers that a double holds exactly rounded by one operation, and texts
 * without NUL or surrogates. Reads nothing beyond the block, writes nothing beyond what the caller gives, allocates
 * nothing but in `elf_export`.
 */

#include "scan.h"

#define DEPTH_MAX 64
#define CHILDREN_MAX 64
#define DIGITS_MAX 18
#define EXACT_INTEGER ((uint64_t)1 << 53)
#define EXACT_POWER 22

/* Texts. */

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

/* The arena has room: all texts of a block together are shorter than the block. */
static void keep_text(Line *line, int32_t column, const Text *text) {
    u8 *arena = line->scan->arena + line->arena_used;
    if (text->escaped) {
        int64_t length = unescape(text, arena);
        put_text(line, column, arena, length, 1);
        if (length > INLINE_BYTES) line->arena_used += length;
    } else {
        put_text(line, column, text->start, text->length, 0);
    }
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
        if (p && column >= 0) keep_text(line, column, &text);
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

static int read_json_line(Scan *scan, const u8 *p, const u8 *end) {
    Line line = {scan, end, scan->rows, scan->arena_used};
    begin_line(scan);
    if (*p != '{' || read_object(&line, p + 1, &scan->nodes[0], 0) != end) return 0;
    end_line(scan, line.arena_used);
    return 1;
}

/* Scans whole lines. The caller's memory has a row for each line break and one more. */
EXPORTED void elf_scan_json(Scan *scan, const u8 *data, int64_t length) {
    const u8 *p = data, *end = data + length;
    scan->data = data;
    while (p < end && scan->rows < scan->capacity && scan->hard_lines < scan->capacity) {
        const u8 *newline = memchr(p, '\n', (size_t)(end - p));
        const u8 *stop = newline ? newline : end, *last = content_end(p, stop);
        if (last > p && !read_json_line(scan, p, last)) put_hard_line(scan, p, stop);
        p = newline ? newline + 1 : end;
    }
}
