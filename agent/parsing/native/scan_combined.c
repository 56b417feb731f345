/* Scans lines of the combined and common log formats into columns: the plain ones, and only the fields that are needed.
 *
 * Sound, not complete, as scan_json.c is. Plain is a line whose host, identity and user are single words; whose time is
 * `[17/May/2015:10:05:03 +0000]` and there is one; whose quoted fields end at the first quote, which no backslash is
 * before; that goes on after the size with nothing, or with referer and user agent; of UTF-8 without control characters
 * in what is read. Where parts of the request are needed, it is three words, the last of them `HTTP/...`. What follows
 * the last needed field may be anything.
 */

#include "times.h"

#define STAMP_BYTES 26
#define YEAR_MIN 1970
#define SIZE_DIGITS_MAX 18

enum field { HOST, USER, TIME, REQUEST, METHOD, PATH, QUERY_STRING, PROTOCOL, STATUS, SIZE, REFERER, USER_AGENT, FIELDS };

/* `is_ascii`: it certainly is. */
typedef struct {
    const u8 *start, *end;
    int is_ascii;
} Span;

/* The last stamp that was read, and its time: most lines have that of the line before. */
typedef struct {
    u8 bytes[STAMP_BYTES];
    int is_set;
    int64_t time_ms;
} Stamp;

/* A word that ends at a blank, which is skipped; NULL if there is none. */
static const u8 *read_word(const u8 *p, const u8 *end, Span *word) {
    word->start = p;
    word->is_ascii = 0;
    p = to_word_end(p, end);
    word->end = p;
    return p < end && p > word->start && *p == ' ' ? p + 1 : NULL;
}

/* A field from behind its opening quote to behind its closing one; NULL if it is not plain. */
static const u8 *read_quoted(const u8 *p, const u8 *end, Span *field) {
    field->start = p;
    field->is_ascii = 1;
    for (;;) {
        p = to_special(p, end);
        if (p >= end || *p < ' ') return NULL;
        if (*p == '"') break;
        if (*p == '\\' && (end - p < 2 || p[1] == '"')) return NULL;
        field->is_ascii &= *p < 0x80;
        p++;
    }
    field->end = p;
    return p + 1;
}

static int month_number(const u8 *p) {
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (int month = 0; month < 12; month++)
        if (!memcmp(p, names + 3 * month, 3)) return month + 1;
    return 0;
}

/* Reads `17/May/2015:10:05:03 +0000`; 0 if that is no plain time. */
static int read_stamp(const u8 *p, Stamp *stamp) {
    int day, month, century, year, hour, minute, second, zone_hours, zone_minutes, zone;
    if (stamp->is_set && !memcmp(p, stamp->bytes, STAMP_BYTES)) return 1;
    if (p[2] != '/' || p[6] != '/' || p[11] != ':' || p[14] != ':' || p[17] != ':' || p[20] != ' ') return 0;
    day = two_digits(p), month = month_number(p + 3), century = two_digits(p + 7), year = two_digits(p + 9);
    hour = two_digits(p + 12), minute = two_digits(p + 15), second = two_digits(p + 18);
    zone_hours = two_digits(p + 22), zone_minutes = two_digits(p + 24);
    if (century < 0 || year < 0 || !month || (p[21] != '+' && p[21] != '-')) return 0;
    year += century * 100;
    if (year < YEAR_MIN || day < 1 || day > days_of_month(year, month)) return 0;
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) return 0;
    if (zone_hours < 0 || zone_hours > 23 || zone_minutes < 0 || zone_minutes > 59) return 0;
    zone = zone_hours * 60 + zone_minutes;
    if (p[21] == '-') zone = -zone;
    if (year == 9999 && zone < 0) return 0; /* may be later than the last time there is */
    stamp->time_ms = (days_since_epoch(year, month, day) * 86400 + (hour * 60 + minute - zone) * 60 + second) * 1000;
    stamp->is_set = 1;
    memcpy(stamp->bytes, p, STAMP_BYTES);
    return 1;
}

/* The end of a target's path: a question mark or a blank. */
static const u8 *to_path_end(const u8 *p, const u8 *end) {
#if defined(__SSE2__)
    const __m128i mark = _mm_set1_epi8('?'), blank = _mm_set1_epi8(' ');
    while (end - p >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)p);
        int mask = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(bytes, mark), _mm_cmpeq_epi8(bytes, blank)));
        if (mask) return p + __builtin_ctz((unsigned)mask);
        p += 16;
    }
#endif
    while (p < end && *p != '?' && *p != ' ') p++;
    return p;
}

/* A text; `-` and nothing are NULL. Returns 0 if it is no UTF-8. */
static int keep(Line *line, int32_t column, Span text, int can_be_a_dash) {
    int64_t length = text.end - text.start;
    if (column < 0 || !length || (length == 1 && *text.start == '-' && !can_be_a_dash)) return 1;
    if (!text.is_ascii && !is_utf8(text.start, text.end)) return 0;
    put_text(line, column, text.start, length, 0);
    return 1;
}

/* The end of a method. */
static const u8 *to_method_end(const u8 *p, const u8 *end) {
    if (end - p >= 4 && !memcmp(p, "GET ", 4)) return p + 3;
    while (p < end && ((u8)((*p | 0x20) - 'a') < 26 || *p == '-' || *p == '_')) p++;
    return p;
}

/* Method, path, query string and protocol; 0 if the request is not plain. */
static int read_request(Line *line, const int32_t *places, Span request) {
    Span method = request, path = request, query = request, protocol = request;
    const u8 *p = to_method_end(request.start, request.end);
    method.end = p;
    if (p == method.start || p >= request.end || *p != ' ') return 0;
    path.start = ++p;
    path.end = p = to_path_end(p, line->end);
    if (p < request.end && *p == '?') {
        query.start = p + 1;
        p = memchr(p, ' ', (size_t)(request.end - p));
    } else {
        query.start = p;
    }
    if (!p || p >= request.end || p == path.start) return 0;
    query.end = p;
    protocol.start = ++p;
    if (request.end - p < 5 || memcmp(p, "HTTP/", 5) || memchr(p, ' ', (size_t)(request.end - p))) return 0;
    return keep(line, places[METHOD], method, 1) && keep(line, places[PATH], path, 1) &&
           keep(line, places[QUERY_STRING], query, 1) && keep(line, places[PROTOCOL], protocol, 1);
}

/* Status and size, from the blank before them on; the place behind them, or NULL. */
static const u8 *read_sizes(Line *line, const int32_t *places, const u8 *p) {
    const u8 *end = line->end, *digits;
    uint64_t size = 0;
    if (end - p < 6 || p[0] != ' ' || p[4] != ' ') return NULL;
    for (int place = 1; place < 4; place++)
        if ((u8)(p[place] - '0') > 9) return NULL;
    if (places[STATUS] >= 0)
        put_number(line, places[STATUS], INTEGER, (uint64_t)((p[1] - '0') * 100 + (p[2] - '0') * 10 + p[3] - '0'));
    digits = p += 5;
    if (*p == '-') return p + 1;
    while (p < end && (u8)(*p - '0') < 10) size = size * 10 + (u8)(*p++ - '0');
    if (p == digits || p - digits > SIZE_DIGITS_MAX) return NULL;
    if (places[SIZE] >= 0) put_number(line, places[SIZE], INTEGER, size);
    return p;
}

/* Referer and user agent, or nothing; 0 if they are not plain. */
static int read_tail(Line *line, const int32_t *places, const u8 *p) {
    const u8 *end = line->end;
    Span referer, user_agent;
    if (p == end) return 1;
    if (end - p < 2 || p[0] != ' ' || p[1] != '"') return 0;
    if (places[REFERER] < 0 && places[USER_AGENT] < 0) return 1;
    p = read_quoted(p + 2, end, &referer);
    if (!p || end - p < 2 || p[0] != ' ' || p[1] != '"') return 0;
    return read_quoted(p + 2, end, &user_agent) && keep(line, places[REFERER], referer, 0) &&
           keep(line, places[USER_AGENT], user_agent, 0);
}

static int read_combined_line(Scan *scan, const int32_t *places, const u8 *p, const u8 *end, Stamp *stamp) {
    Line line = {scan, end, scan->rows, 0, NULL};
    Span host, identity, user, request;
    int needs_parts = places[METHOD] >= 0 || places[PATH] >= 0 || places[QUERY_STRING] >= 0 || places[PROTOCOL] >= 0;
    begin_line(scan);
    if (!(p = read_word(p, end, &host))) return 0;
    if (end - p >= 4 && !memcmp(p, "- - ", 4)) {
        user = (Span){p + 2, p + 3, 1};
        p += 4;
    } else if (!(p = read_word(p, end, &identity)) || !(p = read_word(p, end, &user))) {
        return 0;
    }
    if (end - p < STAMP_BYTES + 4 || p[0] != '[' || memcmp(p + STAMP_BYTES + 1, "] \"", 3)) return 0;
    if (!read_stamp(p + 1, stamp) || !(p = read_quoted(p + STAMP_BYTES + 4, end, &request))) return 0;
    put_number(&line, places[TIME], INTEGER, (uint64_t)stamp->time_ms);
    if (!keep(&line, places[HOST], host, 0) || !keep(&line, places[USER], user, 0)) return 0;
    if (!keep(&line, places[REQUEST], request, 0) || (needs_parts && !read_request(&line, places, request))) return 0;
    if (!(p = read_sizes(&line, places, p)) || !read_tail(&line, places, p)) return 0;
    end_line(scan, 0);
    return 1;
}

/* Scans whole lines. `places` has the column of each field, -1 for those that are not needed; the time's is. The caller's
 * memory has no arena: all texts lie in the block. */
EXPORTED void elf_scan_combined(Scan *scan, const int32_t *places, const u8 *data, int64_t length) {
    const u8 *p = data, *end = data + length;
    Stamp stamp = {{0}, 0, 0};
    scan->data = data;
    while (p < end && has_room(scan)) {
        const u8 *newline = memchr(p, '\n', (size_t)(end - p));
        const u8 *stop = newline ? newline : end, *last = content_end(p, stop);
        if (last > p && !read_combined_line(scan, places, p, last, &stamp)) put_hard_line(scan, p, stop);
        p = newline ? newline + 1 : end;
    }
    scan->consumed = p - data;
}
