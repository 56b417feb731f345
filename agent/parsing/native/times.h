/* Times as logs write them, in ms since the epoch. */

#ifndef ELF_TIMES_H
#define ELF_TIMES_H

#include "scan.h"

#define TIME_MS_MIN (-62135596800000)
#define TIME_MS_MAX 253402300799999
#define MILLISECONDS_FROM 100000000000 /* epoch numbers of this magnitude are milliseconds */
#define DATE_BYTES 10
#define FRACTION_DIGITS_MAX 9

/* The number of two digits, -1 if they are none. */
static inline int two_digits(const u8 *p) {
    u8 tens = (u8)(p[0] - '0'), ones = (u8)(p[1] - '0');
    return tens < 10 && ones < 10 ? tens * 10 + ones : -1;
}

/* Days from 1970-01-01 to a day of the Gregorian calendar; years are counted from March on, so that leap days are last. */
static inline int64_t days_since_epoch(int64_t year, int64_t month, int64_t day) {
    int64_t shifted = year - (month <= 2), century = shifted / 400, rest = shifted - century * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return century * 146097 + rest * 365 + rest / 4 - rest / 100 + day_of_year - 719468;
}

static inline int days_of_month(int year, int month) {
    static const u8 days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && is_leap);
}

/* Reads the date `2024-01-31`; 0 if it is none. */
static inline int read_date(const u8 *p, int64_t *days) {
    int century = two_digits(p), rest = two_digits(p + 2), month = two_digits(p + 5), day = two_digits(p + 8), year;
    if (century < 0 || rest < 0 || month < 1 || month > 12 || day < 1 || p[4] != '-' || p[7] != '-') return 0;
    year = century * 100 + rest;
    if (year < 1 || day > days_of_month(year, month)) return 0;
    *days = days_since_epoch(year, month, day);
    return 1;
}

/* Reads a zone, `Z`, `+hh:mm`, `+hhmm`, `+hh` or nothing, as minutes; 0 if it is none. */
static inline int read_zone(const u8 *p, const u8 *end, int64_t *minutes) {
    int64_t length = end - p;
    int hours, rest = 0;
    *minutes = 0;
    if (!length || (length == 1 && (*p | 0x20) == 'z')) return 1;
    if ((*p != '+' && *p != '-') || (length != 3 && length != 5 && length != 6)) return 0;
    hours = two_digits(p + 1);
    if (length == 6 && p[3] != ':') return 0;
    if (length > 3) rest = two_digits(end - 2);
    if (hours < 0 || hours > 23 || rest < 0 || rest > 59) return 0;
    *minutes = (hours * 60 + rest) * (*p == '-' ? -1 : 1);
    return 1;
}

/* Reads a time of ISO 8601, as parse_times in times.py does; 0 if it is another form, or no time. */
static inline int read_iso_time(const u8 *p, int64_t length, int64_t *time_ms) {
    const u8 *end = p + length;
    int64_t days, zone, milliseconds = 0;
    int hour, minute, second = 0;
    if (length < DATE_BYTES || !read_date(p, &days)) return 0;
    p += DATE_BYTES;
    if (p == end) {
        *time_ms = days * 86400000;
        return 1;
    }
    if (end - p < 6 || (*p != ' ' && (*p | 0x20) != 't') || p[3] != ':') return 0;
    hour = two_digits(p + 1), minute = two_digits(p + 4);
    p += 6;
    if (end - p >= 3 && *p == ':') {
        second = two_digits(p + 1);
        p += 3;
        if (p < end && (*p == '.' || *p == ',')) {
            const u8 *digits = ++p;
            int unit = 100;
            for (; p < end && (u8)(*p - '0') < 10; p++, unit /= 10) milliseconds += (*p - '0') * unit;
            if (p == digits || p - digits > FRACTION_DIGITS_MAX) return 0;
        }
    }
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) return 0;
    if (!read_zone(p, end, &zone)) return 0;
    *time_ms = days * 86400000 + ((hour * 60 + minute - zone) * 60 + second) * 1000 + milliseconds;
    return *time_ms >= TIME_MS_MIN && *time_ms <= TIME_MS_MAX;
}

/* Puts the time that an integer says, seconds or ms; one beyond all times as a number that is none for the exact parser. */
static inline void put_integer_time(Line *line, int32_t column, int64_t value) {
    int64_t time_ms = value > -MILLISECONDS_FROM && value < MILLISECONDS_FROM ? value * 1000 : value;
    double number = (double)value;
    uint64_t bits;
    if (time_ms >= TIME_MS_MIN && time_ms <= TIME_MS_MAX) {
        put_number(line, column, INTEGER, (uint64_t)time_ms);
        return;
    }
    memcpy(&bits, &number, sizeof bits);
    put_number(line, column, DOUBLE, bits);
}

#endif
