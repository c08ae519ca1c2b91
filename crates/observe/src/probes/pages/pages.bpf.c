// Reports which blocks of a cluster's files are requested and fetched into the page cache.
//
// Each file (device and inode) has a range in two bitmaps, one bit per unit (a block, or a page if blocks are smaller).
// Only the first request and the first fetch of a unit are reported, so that events are few; units selected by a hash
// are reported at every request. pages/mod.rs has the same layout.

#include "../kernel.h"

struct super_block {
    u32 s_dev;
} CORE;
struct inode {
    struct super_block *i_sb;
    unsigned long i_ino;
} CORE;
struct address_space {
    struct inode *host;
} CORE;
struct folio {
    struct address_space *mapping;
    unsigned long index;
    unsigned long _flags_1;
    // Order until Linux 6.6; later it is the lowest byte of _flags_1.
    u8 _folio_order;
} CORE;
enum pageflags { PG_head = 6 };

// Bitmap words per tracepoint call. With 8 kB blocks, a read beyond 4 MB continues in the next calls.
#define WORDS 8
#define LOOP_WORDS _Pragma("clang loop unroll(disable)") for (u32 step = 0; step < WORDS; step++)

enum kind { REQUESTED = 1, AGAIN, FETCHED, GROWN };

// New processes are FOLLOWED; user space filters their events. `Role` in pages.rs explains the others.
enum role { FOLLOWED, OTHER, OWN, WANTED };

struct key {
    u64 inode;
    u32 device;
    u32 zero;
};

struct file {
    // Starts at 1.
    u32 number;
    // Range in the bitmaps: first word and number of units.
    u32 first_word;
    u32 units;
    // Added to the unit's number before hashing.
    u32 salt;
    u32 is_grown;
};

struct process {
    u32 role;
    // File and range of the last read, because a long read arrives in several calls.
    u32 file;
    u64 first;
    u64 last;
    // Pages read so far, including cached ones.
    u64 pages;
    // Pages fetched again so far. Briefly too low during a unit's fetch.
    s64 again;
};

struct event {
    // CLOCK_MONOTONIC.
    u64 time;
    // Bit mask of the event's units, all of one bitmap word.
    u64 units;
    // Bit mask of the event's units that were fetched since the probe opened; 0 for AGAIN.
    u64 fetched;
    u64 pages;
    s64 again;
    u32 file;
    u32 word;
    u32 pid;
    u32 kind;
};

// Entries are not preallocated, because allocating all entries takes longer than the rest of loading.
FLAGGED_MAP(files, MAP_HASH, 1, struct key, struct file, NO_PREALLOC);

MAP(processes, MAP_HASH, 16384, u32, struct process);

MAP(requested, MAP_ARRAY, 1, u32, u64);

MAP(fetched, MAP_ARRAY, 1, u32, u64);

// Bitmap of the units that OTHER processes fetched, or whose request by an OTHER process was reported.
MAP(shared, MAP_ARRAY, 1, u32, u64);

RING(events, 1 << 24);

// Pids of new processes. Each wakes pgthaw, so that it sees the process alive.
RING(arrivals, 1 << 14);

// Indexes of `controls`.
// LOST: number of lost events, except those of OTHER processes.
// AGAIN_BELOW: limit, 0 to 2^32. Requests for units with a lower hash are reported each time.
// LOST_OF_OTHERS: number of lost requests, except those of WANTED processes.
enum { LOST, AGAIN_BELOW, LOST_OF_OTHERS, CONTROLS };
MAP(controls, MAP_ARRAY, CONTROLS, u32, u64);

const volatile u32 own_pid = 0;
// A unit has 2^unit_shift pages.
const volatile u32 unit_shift = 0;

INLINE void count_lost(u32 at)
{
    u64 *lost = bpf_map_lookup_elem(&controls, &at);
    if (lost)
        __sync_fetch_and_add(lost, 1);
}

INLINE struct file *find_file(struct address_space *mapping)
{
    struct inode *inode = mapping->host;
    struct key key = {.inode = inode->i_ino, .device = inode->i_sb->s_dev};
    return bpf_map_lookup_elem(&files, &key);
}

INLINE struct process *find_process(u32 pid)
{
    struct process *process = bpf_map_lookup_elem(&processes, &pid);
    if (process)
        return process;
    struct process arrived = {.role = pid == own_pid ? OWN : FOLLOWED};
    if (!bpf_map_update_elem(&processes, &pid, &arrived, NOEXIST) && pid != own_pid)
        bpf_ringbuf_output(&arrivals, &pid, sizeof(pid), FORCE_WAKEUP);
    return bpf_map_lookup_elem(&processes, &pid);
}

// A bitmap word of a file, and a process.
struct place {
    u32 file;
    u32 word;
    u32 pid;
    u32 role;
};

INLINE int tell(u32 kind, struct place place, u64 units, u64 come)
{
    struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
    if (!event) {
        if (place.role != OTHER)
            count_lost(LOST);
        if ((kind == REQUESTED || kind == AGAIN) && place.role != WANTED)
            count_lost(LOST_OF_OTHERS);
        return 0;
    }
    struct process *process = 0;
    if (kind == REQUESTED || kind == AGAIN)
        process = bpf_map_lookup_elem(&processes, &place.pid);
    event->time = bpf_ktime_get_ns();
    event->units = units;
    event->fetched = come;
    event->pages = process ? process->pages : 0;
    event->again = process ? process->again : 0;
    event->file = place.file;
    event->word = place.word;
    event->pid = place.pid;
    event->kind = kind;
    bpf_ringbuf_submit(event, NO_WAKEUP);
    return 1;
}

// The finalizer of MurmurHash3 (Austin Appleby, public domain).
INLINE u32 hash(u32 value)
{
    value ^= value >> 16;
    value *= 0x85ebca6bu;
    value ^= value >> 13;
    value *= 0xc2b2ae35u;
    return value ^ value >> 16;
}

// As a global function, this is verified only once.
__attribute__((noinline)) u64 count_units(u64 units)
{
    units -= units >> 1 & 0x5555555555555555ull;
    units = (units & 0x3333333333333333ull) + (units >> 2 & 0x3333333333333333ull);
    units = (units + (units >> 4)) & 0x0f0f0f0f0f0f0f0full;
    return units * 0x0101010101010101ull >> 56;
}

// Bits of the 64 units from `first` whose hash is below the limit. Verified once, as a global function.
__attribute__((noinline)) u64 hashed_below(u32 first, u64 below)
{
    u64 found = 0;
    // The loop avoids branches, because the verifier would follow each path.
#pragma clang loop unroll(disable)
    for (u32 bit = 0; bit < 64; bit++)
        found |= (hash(first + bit) - below) >> 63 << bit;
    return found;
}

INLINE u64 sampled(u32 first, u64 units, u32 from, u32 to)
{
    u32 at = AGAIN_BELOW;
    u64 *limit = bpf_map_lookup_elem(&controls, &at);
    u64 below = limit ? *limit : 0;
    if (from == to)
        return hash(first + from) < below ? units : 0;
    return hashed_below(first, below) & units;
}

// `at`: position in the bitmaps; above 32 bits, the hashed number of the first unit. `range`: `from` and `to`.
// A global function, so that it is verified only once.
__attribute__((noinline)) int request(u64 file_word, u64 pid_role, u64 at_hashed, u64 range)
{
    struct place place = {file_word >> 32, file_word, pid_role >> 32, pid_role};
    u32 at = at_hashed, from = range & 63, to = range >> 8 & 63;
    u64 units = (~0ull << from) & (~0ull >> (63 - to));
    u64 *bits = bpf_map_lookup_elem(&requested, &at);
    u64 *came = bpf_map_lookup_elem(&fetched, &at);
    u64 *others = bpf_map_lookup_elem(&shared, &at);
    if (!bits || !came || !others)
        return 0;
    if (place.role == OTHER) {
        u64 new = units & *came & ~*others;
        if (new)
            new &= ~__sync_fetch_and_or(others, new);
        if (new)
            tell(AGAIN, place, new, 0);
        return 0;
    }
    u64 before = *bits;
    u64 first = units & ~before;
    if (first) {
        before = __sync_fetch_and_or(bits, units);
        first = units & ~before;
        if (first && !tell(REQUESTED, place, first, *came & first))
            // The event was lost, so the next request counts as the first.
            __sync_fetch_and_and(bits, ~first);
    }
    u64 again = units & before;
    if (again) {
        // A process that is not WANTED may not belong to the job, so all its repeated requests for fetched units are
        // reported.
        u64 doubtful = place.role == WANTED ? 0 : again & *came;
        again = sampled(at_hashed >> 32, again, from, to) | doubtful;
        if (again)
            tell(AGAIN, place, again, 0);
    }
    return 0;
}

// Returns the number of units that were never fetched before.
__attribute__((noinline)) u64 fetch(u64 file_word, u64 pid_role, u64 at_hashed, u64 range)
{
    struct place place = {file_word >> 32, file_word, pid_role >> 32, pid_role};
    u32 at = at_hashed, from = range & 63, to = range >> 8 & 63;
    u64 units = (~0ull << from) & (~0ull >> (63 - to));
    u64 *bits = bpf_map_lookup_elem(&fetched, &at);
    if (!bits || !(units & ~*bits))
        return 0;
    u64 first = units & ~__sync_fetch_and_or(bits, units);
    if (first && place.role != OTHER)
        tell(FETCHED, place, first, first);
    u64 *others = bpf_map_lookup_elem(&shared, &at);
    if (first && place.role == OTHER && others)
        __sync_fetch_and_or(others, first);
    return count_units(first);
}

INLINE void tell_growth(struct file *file, u32 pid)
{
    if (!file->is_grown && tell(GROWN, (struct place){file->number, 0, pid, FOLLOWED}, 0, 0))
        file->is_grown = 1;
}

// Returns how many pages of a fetch had been fetched before.
INLINE s64 walk(u32 kind, struct file *file, u64 first, u64 last, u32 pid, u32 role)
{
    u64 pages = last - first + 1, come = 0;
    first >>= unit_shift;
    last >>= unit_shift;
    if (last >= file->units) {
        if (kind == REQUESTED && role != OTHER)
            count_lost(LOST);
        if (role != OTHER)
            tell_growth(file, pid);
        if (first >= file->units)
            return 0;
        // Beyond the bitmaps, it is unknown whether pages were fetched before.
        pages = 0;
        last = file->units - 1;
    }
    LOOP_WORDS {
        u32 word = first >> 6, last_word = last >> 6, to = word == last_word ? last & 63 : 63;
        u64 file_word = (u64)file->number << 32 | word, pid_role = (u64)pid << 32 | role;
        u64 at_hashed = (u64)(file->salt + (word << 6)) << 32 | (file->first_word + word);
        u64 range = (first & 63) | to << 8;
        if (kind == REQUESTED)
            request(file_word, pid_role, at_hashed, range);
        else
            come += fetch(file_word, pid_role, at_hashed, range);
        if (word >= last_word)
            break;
        first = (u64)(word + 1) << 6;
    }
    return pages ? (s64)(pages - (come << unit_shift)) : 0;
}

// struct address_space *mapping, pgoff_t index, pgoff_t last_index
SEC("tp_btf/mm_filemap_get_pages")
int pages_requested(u64 *ctx)
{
    struct file *file = find_file((struct address_space *)ctx[0]);
    if (!file)
        return 0;
    u64 first = ctx[1], last = ctx[2];
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    struct process *process = find_process(pid);
    u32 role = process ? process->role : FOLLOWED;
    if (role == OWN)
        return 0;
    if (process && role != OTHER) {
        // Whether this call continues a read that is already counted.
        int goes_on = process->file == file->number && process->last == last && first > process->first;
        if (!goes_on)
            process->pages += last - first + 1;
        process->file = file->number;
        process->first = first;
        process->last = last;
    }
    walk(REQUESTED, file, first, last, pid, role);
    return 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int pages_fetched(u64 *ctx)
{
    struct folio *folio = (struct folio *)ctx[0];
    struct file *file = find_file(folio->mapping);
    if (!file)
        return 0;
    u64 first = folio->index, last = first;
    // The flags are a folio's first member.
    u64 flags = *(u64 *)folio;
    if (flags >> __builtin_preserve_enum_value(*(enum pageflags *)PG_head, 1) & 1) {
        u32 order = EXISTS(folio->_folio_order) ? folio->_folio_order : folio->_flags_1 & 0xff;
        last = first + (1ull << (order & 31)) - 1;
    }
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    struct process *process = find_process(pid);
    u32 role = process ? process->role : FOLLOWED;
    s64 again = walk(FETCHED, file, first, last, pid, role);
    if (process)
        process->again += again;
    return 0;
}
