/* Hashes of keys: the public ones that order them, as cbt/algebra/hashing.py says, and keyed ones that nobody outside
 * the process can aim at. */

#ifndef ELF_TREE_HASHES_H
#define ELF_TREE_HASHES_H

#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define NULL_ELEMENT 0x6E756C6C2D656C66u

static inline u32 load32(const u8 *p) {
    u32 value;
    memcpy(&value, p, sizeof value);
    return value;
}

static inline u64 load64(const u8 *p) {
    u64 value;
    memcpy(&value, p, sizeof value);
    return value;
}

static inline u64 rotated(u64 value, int bits) { return value << bits | value >> (64 - bits); }

/* One step of splitmix64. */
static inline u64 mixed(u64 bits) {
    bits += 0x9E3779B97F4A7C15u;
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
    return bits ^ bits >> 31;
}

/* XXH3 with 64 bits, by its specification. */

#define STRIPE 64
#define SECRET_BYTES 192
#define STRIPES_OF_BLOCK ((SECRET_BYTES - STRIPE) / 8)
#define P32_1 0x9E3779B1u
#define P32_2 0x85EBCA77u
#define P32_3 0xC2B2AE3Du
#define P64_1 0x9E3779B185EBCA87u
#define P64_2 0xC2B2AE3D27D4EB4Fu
#define P64_3 0x165667B19E3779F9u
#define P64_4 0x85EBCA77C2B2AE63u
#define P64_5 0x27D4EB2F165667C5u

static const u8 xxh3_secret[SECRET_BYTES] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4, 0x6d, 0xe9,
    0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78,
    0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6,
    0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71,
    0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f, 0xe3,
    0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8,
    0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa,
    0x13, 0x63, 0xeb, 0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, 0x2b,
    0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f, 0x95,
    0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static inline u64 folded(u64 left, u64 right) {
    unsigned __int128 product = (unsigned __int128)left * right;
    return (u64)product ^ (u64)(product >> 64);
}

static inline u64 avalanche(u64 h) {
    h = (h ^ h >> 37) * 0x165667919E3779F9u;
    return h ^ h >> 32;
}

static inline u64 old_avalanche(u64 h) {
    h = (h ^ h >> 33) * P64_2;
    h = (h ^ h >> 29) * P64_3;
    return h ^ h >> 32;
}

static inline u64 of_16_bytes(const u8 *p, const u8 *secret, u64 seed) {
    return folded(load64(p) ^ (load64(secret) + seed), load64(p + 8) ^ (load64(secret + 8) - seed));
}

static inline u64 of_few_bytes(const u8 *p, u64 length, u64 seed) {
    const u8 *secret = xxh3_secret;
    if (length > 8) {
        u64 low = load64(p) ^ ((load64(secret + 24) ^ load64(secret + 32)) + seed);
        u64 high = load64(p + length - 8) ^ ((load64(secret + 40) ^ load64(secret + 48)) - seed);
        return avalanche(length + __builtin_bswap64(low) + high + folded(low, high));
    }
    if (length >= 4) {
        u64 flip, h;
        seed ^= (u64)__builtin_bswap32((u32)seed) << 32;
        flip = (load64(secret + 8) ^ load64(secret + 16)) - seed;
        h = (load32(p + length - 4) + ((u64)load32(p) << 32)) ^ flip;
        h = (h ^ rotated(h, 49) ^ rotated(h, 24)) * 0x9FB21C651E98DF25u;
        h = (h ^ ((h >> 35) + length)) * 0x9FB21C651E98DF25u;
        return h ^ h >> 28;
    }
    if (length) {
        u32 all = (u32)p[0] << 16 | (u32)p[length >> 1] << 24 | p[length - 1] | (u32)length << 8;
        return old_avalanche(all ^ ((load32(secret) ^ load32(secret + 4)) + seed));
    }
    return old_avalanche(seed ^ load64(secret + 56) ^ load64(secret + 64));
}

static inline u64 of_some_bytes(const u8 *p, u64 length, u64 seed) {
    const u8 *secret = xxh3_secret, *end = p + length;
    u64 sum = length * P64_1;
    if (length <= 128) {
        for (u64 pair = (length - 1) / 32 + 1; pair-- > 0;) {
            sum += of_16_bytes(p + 16 * pair, secret + 32 * pair, seed);
            sum += of_16_bytes(end - 16 * (pair + 1), secret + 32 * pair + 16, seed);
        }
        return avalanche(sum);
    }
    for (u64 i = 0; i < 8; i++) sum += of_16_bytes(p + 16 * i, secret + 16 * i, seed);
    sum = avalanche(sum);
    for (u64 i = 8; i < length / 16; i++) sum += of_16_bytes(p + 16 * i, secret + 16 * (i - 8) + 3, seed);
    return avalanche(sum + of_16_bytes(end - 16, secret + 136 - 17, seed));
}

static inline void add_stripe(u64 *sums, const u8 *p, const u8 *secret) {
    for (int lane = 0; lane < 8; lane++) {
        u64 value = load64(p + 8 * lane), keyed = value ^ load64(secret + 8 * lane);
        sums[lane ^ 1] += value;
        sums[lane] += (u64)(u32)keyed * (keyed >> 32);
    }
}

static inline u64 of_many_bytes(const u8 *p, u64 length, u64 seed) {
    u64 sums[8] = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1};
    u64 stripes = (length - 1) / STRIPE, result = length * P64_1;
    u8 secret[SECRET_BYTES];
    for (int i = 0; i < SECRET_BYTES; i += 16) {
        u64 low = load64(xxh3_secret + i) + seed, high = load64(xxh3_secret + i + 8) - seed;
        memcpy(secret + i, &low, 8);
        memcpy(secret + i + 8, &high, 8);
    }
    for (u64 stripe = 0; stripe < stripes; stripe++) {
        u64 place = stripe % STRIPES_OF_BLOCK;
        add_stripe(sums, p + STRIPE * stripe, secret + 8 * place);
        if (place == STRIPES_OF_BLOCK - 1)
            for (int lane = 0; lane < 8; lane++) {
                sums[lane] ^= sums[lane] >> 47 ^ load64(secret + SECRET_BYTES - STRIPE + 8 * lane);
                sums[lane] *= P32_1;
            }
    }
    add_stripe(sums, p + length - STRIPE, secret + SECRET_BYTES - STRIPE - 7);
    for (int lane = 0; lane < 8; lane += 2)
        result += folded(sums[lane] ^ load64(secret + 11 + 8 * lane), sums[lane + 1] ^ load64(secret + 19 + 8 * lane));
    return avalanche(result);
}

static inline u64 xxh3(const u8 *p, u64 length, u64 seed) {
    if (length <= 16) return of_few_bytes(p, length, seed);
    return length <= 240 ? of_some_bytes(p, length, seed) : of_many_bytes(p, length, seed);
}

/* SipHash with one round for each word and three at the end. */

static inline void sip_round(u64 *v) {
    v[0] += v[1];
    v[1] = rotated(v[1], 13) ^ v[0];
    v[0] = rotated(v[0], 32);
    v[2] += v[3];
    v[3] = rotated(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotated(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotated(v[1], 17) ^ v[2];
    v[2] = rotated(v[2], 32);
}

static inline void sip_begin(u64 *v, u64 key_0, u64 key_1) {
    v[0] = key_0 ^ 0x736F6D6570736575u;
    v[1] = key_1 ^ 0x646F72616E646F6Du;
    v[2] = key_0 ^ 0x6C7967656E657261u;
    v[3] = key_1 ^ 0x7465646279746573u;
}

static inline void sip_word(u64 *v, u64 word) {
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

/* 128 bits of a SipHash, as its authors make so many. */
static inline void sip_pair(u64 *v, u64 *first, u64 *second) {
    v[2] ^= 0xEE;
    for (int i = 0; i < 3; i++) sip_round(v);
    *first = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xDD;
    for (int i = 0; i < 3; i++) sip_round(v);
    *second = v[0] ^ v[1] ^ v[2] ^ v[3];
}

static inline u64 sip_end(u64 *v) {
    v[2] ^= 0xFF;
    for (int i = 0; i < 3; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static inline void sip_bytes(u64 *v, const u8 *p, u64 length) {
    u64 last = length << 56, at = 0;
    for (; at + 8 <= length; at += 8) sip_word(v, load64(p + at));
    for (u64 i = 0; at + i < length; i++) last |= (u64)p[at + i] << (8 * i);
    sip_word(v, last);
}

static inline u64 keyed_hash(const u8 *p, u64 length, u64 key_0, u64 key_1) {
    u64 v[4];
    sip_begin(v, key_0, key_1);
    sip_bytes(v, p, length);
    return sip_end(v);
}

#endif
