/* Scans JSON lines into columns: the plain lines of a block, and only the paths that are needed.
 *
 * Sound, not complete: a line that is anything but plain is listed as hard, and the exact parser in Python decides what
 * it means. Plain is one object between the line's ends, without white space around it, of valid JSON and UTF-8, no
 * deeper than DEPTH_MAX, whose keys have no escapes and, on needed paths, come once; whose needed values are null,
 * booleans, integers of 64 bits, numbers that a double holds exactly rounded by one operation, and texts
 * without NUL or surrogates; a needed time has no escapes. A line that ends with another thing than a brace is malformed
 * for certain. Reads nothing beyond the block, writes nothing beyond what the caller gives, allocates
 * nothing but in `elf_export`.
 */

#include "times.h"

#define DEPTH_MAX 64
#define CHILDREN_MAX 64
#define DIGITS_MAX 19 /* that 64 bits without a sign hold, whatever the digits are */
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

/* Reads a text with escapes, or beyond ASCII; see `read_text`. */
static __attribute__((noinline)) const u8 *read_odd_text(const u8 *p, const u8 *end, Text *text) {
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

/* Reads a text from behind its opening quote to behind its closing one; NULL if it is not plain. */
static inline const u8 *read_text(const u8 *p, const u8 *end, Text *text) {
    const u8 *stop = to_special(p, end);
    if (stop >= end || *stop != '"') return read_odd_text(p, end, text);
    text->start = p;
    text->length = stop - p;
    text->escaped = 0;
    return stop + 1;
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

/* A text as a time, or, where that is of no common form, as it is. */
static void keep_text_time(Line *line, int32_t column, const Text *text) {
    int64_t time_ms;
    if (read_iso_time(text->start, text->length, &time_ms)) {
        put_number(line, column, INTEGER, (uint64_t)time_ms);
    } else {
        keep_text(line, column, text);
    }
}

static inline const u8 *over_digits(const u8 *p, const u8 *end) {
    const uint64_t highs = 0xF0F0F0F0F0F0F0F0u, sixes = 0x0606060606060606u, zeros = 0x3030303030303030u;
    uint64_t bytes;
    while (end - p >= 8) {
        memcpy(&bytes, p, 8);
        if ((bytes & highs) != zeros || ((bytes + sixes) & highs) != zeros) break;
        p += 8;
    }
    while (p < end && (u8)(*p - '0') < 10) p++;
    return p;
}

/* Skips a number. */
static inline const u8 *over_number(const u8 *p, const u8 *end) {
    const u8 *digits;
    if (p < end && *p == '-') p++;
    digits = p;
    p = over_digits(p, end);
    if (p == digits || (p - digits > 1 && *digits == '0')) return NULL;
    if (p < end && *p == '.') {
        digits = ++p;
        p = over_digits(p, end);
        if (p == digits) return NULL;
    }
    if (p < end && (*p | 0x20) == 'e') {
        if (++p < end && (*p == '+' || *p == '-')) p++;
        digits = p;
        p = over_digits(p, end);
        if (p == digits) return NULL;
    }
    return p;
}

/* Reads a number at a node, which must be plain. */
static const u8 *read_number(Line *line, const u8 *p, const Node *node) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const u8 *end = line->end, *digits;
    int negative = 0, real = 0;
    uint64_t value = 0, bits;
    int64_t count, scale = 0;
    double number;
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
    if (count > DIGITS_MAX) return NULL;
    if (!real) {
        if ((negative && !value) || value > (uint64_t)INT64_MAX + (uint64_t)negative) return NULL;
        if (negative) value = (uint64_t)0 - value;
        if (node->column >= 0) put_number(line, node->column, INTEGER, value);
        if (node->time >= 0) put_integer_time(line, node->time, (int64_t)value);
        return p;
    }
    if (value > (uint64_t)EXACT_INTEGER || scale < -EXACT_POWER || scale > EXACT_POWER) return NULL;
    number = (double)value;
    number = scale < 0 ? number / powers[-scale] : number * powers[scale];
    if (negative) number = -number;
    memcpy(&bits, &number, sizeof bits);
    if (node->column >= 0) put_number(line, node->column, DOUBLE, bits);
    if (node->time >= 0) put_number(line, node->time, DOUBLE, bits);
    return p;
}

/* Values of any kind. */

static inline const u8 *over_blanks(const u8 *p, const u8 *end) {
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
        if (p < end && *p == '"') {
            p = read_text(p + 1, end, &key);
        } else {
            p = over_value(line, p, depth + 1);
        }
        if (!p) return NULL;
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
    default: return over_number(p, end);
    }
}

static const u8 *read_object(Line *line, const u8 *p, const Node *node, int depth);

/* Reads the value at a node: on a needed path, or above one. */
static const u8 *read_value(Line *line, const u8 *p, const Node *node, int depth) {
    const u8 *end = line->end;
    int32_t column = node->column, time = node->time;
    Text text;
    p = over_blanks(p, end);
    if (p >= end || (line->scan->is_strict && column < 0 && time < 0 && *p != '{' && *p != 'n')) return NULL;
    switch (*p) {
    case '"':
        p = read_text(p + 1, end, &text);
        if (p && column >= 0) keep_text(line, column, &text);
        if (!p || time < 0) return p;
        if (text.escaped) return NULL;
        keep_text_time(line, time, &text);
        return p;
    case '{':
        return column >= 0 || time >= 0 ? NULL : read_object(line, p + 1, node, depth);
    case '[':
        return NULL;
    case 't':
    case 'f':
        if (column >= 0) put_number(line, column, BOOLEAN, *p == 't');
        if (time >= 0) put_number(line, time, BOOLEAN, *p == 't');
        return over_word(p, end, *p == 't' ? "true" : "false");
    case 'n':
        return over_word(p, end, "null");
    default:
        return read_number(line, p, node);
    }
}

static inline const Child *child_of(const Scan *scan, const Node *node, const Text *key) {
    for (int32_t i = node->first; i < node->first + node->count; i++) {
        const Child *child = &scan->children[i];
        const u8 *name = scan->keys + child->key;
        if (child->length != key->length || (key->length && *name != *key->start)) continue;
        if (!memcmp(name, key->start, (size_t)key->length)) return child;
    }
    return NULL;
}

/* Whether the bytes at `p` are those of a key that lies before them in the block. */
static inline int is_again(const u8 *p, const u8 *end, const Guess *guess) {
    if (!guess->length || end - p < guess->length) return 0;
#if defined(__SSE2__)
    if (end - p >= 16 && guess->length <= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)p), known = _mm_loadu_si128((const __m128i *)guess->key);
        uint32_t wanted = (1u << guess->length) - 1;
        return ((uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, known)) & wanted) == wanted;
    }
#endif
    return !memcmp(p, guess->key, (size_t)guess->length);
}

/* Reads a key from its opening quote to behind its colon; NULL if it is not plain. Most keys are those that the line
 * before has in the same place, so that is looked at first. */
static inline const u8 *read_key(const Scan *scan, const u8 *p, const u8 *end, const Node *node, Guess *guess,
                                 const Child **child) {
    const u8 *start = p;
    Text key;
    if (guess && guess->node == node && is_again(p, end, guess)) {
        *child = guess->child;
        return p + guess->length;
    }
    if (p >= end || *p != '"' || !(p = read_text(p + 1, end, &key)) || key.escaped) return NULL;
    p = over_blanks(p, end);
    if (p >= end || *p++ != ':') return NULL;
    *child = child_of(scan, node, &key);
    if (guess && p - start < 1 << 16) *guess = (Guess){start, node, *child, (int32_t)(p - start)};
    return p;
}

/* Reads an object from behind its opening brace. */
static const u8 *read_object(Line *line, const u8 *p, const Node *node, int depth) {
    const u8 *end = line->end;
    const Scan *scan = line->scan;
    uint64_t seen = 0;
    Text text;
    if (depth >= DEPTH_MAX) return NULL;
    p = over_blanks(p, end);
    if (p < end && *p == '}') return p + 1;
    for (int place = 0;; place++) {
        Guess *guess = depth < GUESS_DEPTH && place < GUESS_PLACES ? &line->guesses[depth][place] : NULL;
        const Child *child;
        p = over_blanks(p, end);
        if (!(p = read_key(scan, p, end, node, guess, &child))) return NULL;
        if (child) {
            uint64_t bit = (uint64_t)1 << (child - scan->children - node->first);
            if (seen & bit) return NULL;
            seen |= bit;
            p = read_value(line, p, &scan->nodes[child->node], depth + 1);
        } else if (scan->is_strict) {
            return NULL;
        } else if (p < end && *p == '"') {
            p = read_text(p + 1, end, &text);
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

/* Reads a line from its first byte on; returns the place behind its content, or NULL if it is not plain. No object leads
 * over a line break, so `end` may be that of the block. */
static const u8 *read_json_line(Scan *scan, const u8 *p, const u8 *end, Guess guesses[][GUESS_PLACES]) {
    Line line = {scan, end, scan->rows, scan->arena_used, guesses};
    begin_line(scan);
    if (*p != '{' || !(p = read_object(&line, p + 1, &scan->nodes[0], 0))) return NULL;
    if (p < end && *p == '\r') p++;
    if (p < end && *p != '\n') return NULL;
    end_line(scan, line.arena_used);
    return p;
}

/* Whether a line that is not plain ends in the midst of an object, or outside all of them: then nothing helps. */
static int is_cut_off(const u8 *p, const u8 *stop) {
    while (stop > p && (stop[-1] == ' ' || stop[-1] == 0 || (stop[-1] >= '\t' && stop[-1] <= '\r'))) stop--;
    return stop > p && stop[-1] != '}';
}

/* Scans whole lines, as many as the caller's memory takes; `consumed` says how much that is. */
EXPORTED void elf_scan_json(Scan *scan, const u8 *data, int64_t length) {
    Guess guesses[GUESS_DEPTH][GUESS_PLACES];
    const u8 *p = data, *end = data + length;
    memset(guesses, 0, sizeof guesses);
    scan->data = data;
    while (p < end && has_room(scan)) {
        const u8 *stop = *p == '\n' ? p : read_json_line(scan, p, end, guesses);
        if (!stop) {
            stop = memchr(p, '\n', (size_t)(end - p));
            if (!stop) stop = end;
            if (!scan->is_strict && is_cut_off(p, stop)) {
                scan->malformed++;
            } else if (content_end(p, stop) > p) {
                put_hard_line(scan, p, stop);
            }
        }
        p = stop < end ? stop + 1 : end;
    }
    scan->consumed = p - data;
}
