// Counts 13-byte keys in a hash map, on one thread: what the compressed buffer tree is measured against.
//
//     hash_map MAP speed|memory FILE
//
// MAP is one of those in `main`. FILE holds the keys, one after the other; all of it is read before the clock
// starts. The clock runs over the inserts and one pass over the map, which sums the counts. Prints one line of
// JSON: the time, or with `memory` the bytes that the map's allocator was asked for and by how much the process
// grew with the inserts. These are runs of their own since Google's maps grow by `realloc` only with their own
// allocator, which is faster.

#include <sparsehash/dense_hash_map>
#include <sparsehash/sparse_hash_map>

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kKeyBytes = 13;

struct Key {
    char bytes[kKeyBytes];

    Key() = default;
    explicit Key(const char* from) { std::memcpy(bytes, from, kKeyBytes); }
    bool operator==(const Key& other) const { return std::memcmp(bytes, other.bytes, kKeyBytes) == 0; }
};

std::uint64_t load64(const char* from) {
    std::uint64_t value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// XXH3-64 with seed 0, as far as it concerns keys of 9 to 16 bytes: the hash that ELF uses for strings.
std::uint64_t xxh3(const char* bytes) {
    constexpr std::uint64_t kFlipLow = 0x1f67b3b7a4a44072ULL ^ 0x78e5c0cc4ee679cbULL;
    constexpr std::uint64_t kFlipHigh = 0x2172ffcc7dd05a82ULL ^ 0x8e2443f7744608b8ULL;
    const std::uint64_t low = load64(bytes) ^ kFlipLow;
    const std::uint64_t high = load64(bytes + kKeyBytes - 8) ^ kFlipHigh;
    const unsigned __int128 product = static_cast<unsigned __int128>(low) * high;
    const std::uint64_t folded = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    std::uint64_t hash = kKeyBytes + __builtin_bswap64(low) + high + folded;
    hash = (hash ^ (hash >> 37)) * 0x165667919e3779f9ULL;
    return hash ^ (hash >> 32);
}

struct Hash {
    std::size_t operator()(const Key& key) const { return xxh3(key.bytes); }
    std::size_t operator()(const std::string& key) const { return xxh3(key.data()); }
};

std::size_t live_bytes = 0;

template <class T>
struct Counting {
    using value_type = T;
    using pointer = T*;
    using const_pointer = const T*;
    using reference = T&;
    using const_reference = const T&;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    template <class U>
    struct rebind {
        using other = Counting<U>;
    };

    Counting() = default;
    template <class U>
    Counting(const Counting<U>&) {}

    T* allocate(std::size_t count, const void* = nullptr) {
        live_bytes += count * sizeof(T);
        return static_cast<T*>(::operator new(count * sizeof(T)));
    }
    void deallocate(T* from, std::size_t count) {
        live_bytes -= count * sizeof(T);
        ::operator delete(from);
    }
    std::size_t max_size() const { return static_cast<std::size_t>(-1) / sizeof(T); }
    bool operator==(const Counting&) const { return true; }
    bool operator!=(const Counting&) const { return false; }
};

template <class K, class Allocator>
using Sparse = google::sparse_hash_map<K, std::uint64_t, Hash, std::equal_to<K>, Allocator>;
template <class K, class Allocator>
using Dense = google::dense_hash_map<K, std::uint64_t, Hash, std::equal_to<K>, Allocator>;
template <class K, class Allocator>
using Unordered = std::unordered_map<K, std::uint64_t, Hash, std::equal_to<K>, Allocator>;

template <class Map>
void prepare(Map&) {}
template <class Allocator>
void prepare(Dense<Key, Allocator>& map) {
    map.set_empty_key(Key(std::string(kKeyBytes, '\0').data()));
}

long resident_bytes() {
    long pages = 0;
    if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
        std::fclose(file);
    }
    return pages * sysconf(_SC_PAGESIZE);
}

template <class Map>
int count(bool memory, const std::vector<char>& bytes) {
    using Clock = std::chrono::steady_clock;
    using K = typename Map::key_type;
    std::vector<K> keys;
    keys.reserve(bytes.size() / kKeyBytes);
    for (std::size_t at = 0; at < bytes.size(); at += kKeyBytes) {
        if constexpr (std::is_same_v<K, std::string>) {
            keys.emplace_back(&bytes[at], kKeyBytes);
        } else {
            keys.emplace_back(&bytes[at]);
        }
    }
    const long resident = resident_bytes();
    const auto started = Clock::now();
    Map map;
    prepare(map);
    for (const K& key : keys) ++map[key];
    const auto inserted = Clock::now();
    const long grown = resident_bytes() - resident;
    const std::size_t tracked = live_bytes;
    const auto resumed = Clock::now();
    std::uint64_t total = 0, squares = 0;
    for (const auto& entry : map) {
        total += entry.second;
        squares += entry.second * entry.second;
    }
    const std::chrono::duration<double> took = (inserted - started) + (Clock::now() - resumed);
    std::printf("{\"answer\": {\"rows\": %zu, \"total\": %llu, \"squares\": %llu}, \"figures\": ", map.size(),
                static_cast<unsigned long long>(total), static_cast<unsigned long long>(squares));
    if (!memory) {
        std::printf("{\"seconds\": %.9f}}\n", took.count());
    } else {
        std::printf("{\"tracked_bytes\": %zu, \"resident_bytes\": %ld}}\n", tracked, grown);
    }
    return 0;
}

template <class K>
using Plain = google::libc_allocator_with_realloc<std::pair<const K, std::uint64_t>>;
template <class K>
using Tracked = Counting<std::pair<const K, std::uint64_t>>;

template <template <class, class> class Map, class K>
int count(bool memory, const std::vector<char>& bytes) {
    return memory ? count<Map<K, Tracked<K>>>(memory, bytes) : count<Map<K, Plain<K>>>(memory, bytes);
}

bool read_file(const char* path, std::vector<char>& bytes) {
    std::FILE* file = std::fopen(path, "rb");
    if (file == nullptr) return false;
    std::fseek(file, 0, SEEK_END);
    bytes.resize(static_cast<std::size_t>(std::ftell(file)));
    std::rewind(file);
    const bool whole = std::fread(bytes.data(), 1, bytes.size(), file) == bytes.size();
    std::fclose(file);
    return whole && bytes.size() % kKeyBytes == 0;
}

}  // namespace

// Lets Google's maps move keys with `realloc` and `memmove`, their fastest way.
namespace google {
template <>
struct has_trivial_copy<Key> : true_type {};
template <>
struct has_trivial_destructor<Key> : true_type {};
}  // namespace google

int main(int argc, char** argv) {
    std::vector<char> bytes;
    if (argc != 4 || !read_file(argv[3], bytes)) {
        std::fprintf(stderr, "hash_map: needs a map, speed or memory, and a readable file of 13-byte keys\n");
        return 2;
    }
    const std::string name = argv[1];
    const bool memory = std::string(argv[2]) == "memory";
    if (name == "sparse") return count<Sparse, Key>(memory, bytes);
    if (name == "dense") return count<Dense, Key>(memory, bytes);
    if (name == "unordered") return count<Unordered, Key>(memory, bytes);
    if (name == "sparse-string") return count<Sparse, std::string>(memory, bytes);
    std::fprintf(stderr, "hash_map: there is no map %s\n", name.c_str());
    return 2;
}
