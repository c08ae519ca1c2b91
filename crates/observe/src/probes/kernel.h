// Types, sections, maps and helpers for all kernel programs.
//
// Each program declares only the kernel members that it uses. The loader relocates them (CO-RE).

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define CORE __attribute__((preserve_access_index))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#define MAP(name, kind, entries, key_type, value_type) \
    struct { __uint(type, kind); __uint(max_entries, entries); __type(key, key_type); __type(value, value_type); } name SEC(".maps")
#define FLAGGED_MAP(name, kind, entries, key_type, value_type, flags) \
    struct { __uint(type, kind); __uint(max_entries, entries); __type(key, key_type); __type(value, value_type); __uint(map_flags, flags); } name SEC(".maps")
#define RING(name, bytes) \
    struct { __uint(type, MAP_RING); __uint(max_entries, bytes); } name SEC(".maps")
// Keeps clang from merging code paths that the verifier must check separately.
#define HIDE(value) asm volatile("" : "+r"(value))
#define BARRIER() asm volatile("" : : : "memory")

// include/uapi/linux/bpf.h: helper numbers, map types, flags.
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*const bpf_map_pop_elem)(void *map, void *value) = (void *)88;
static long (*const bpf_probe_read_user)(void *to, u32 bytes, const void *from) = (void *)112;
static long (*const bpf_probe_read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static long (*const bpf_probe_read_kernel_str)(void *to, u32 bytes, const void *from) = (void *)115;
static long (*const bpf_ringbuf_output)(void *ring, void *record, u64 bytes, u64 flags) = (void *)130;
static void *(*const bpf_ringbuf_reserve)(void *ring, u64 bytes, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static struct pt_regs *(*const bpf_task_pt_regs)(struct task_struct *task) = (void *)175;
enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_QUEUE = 22, MAP_RING = 27, NO_PREALLOC = 1, MMAPABLE = 1 << 10, NOEXIST = 1 };
enum { NO_WAKEUP = 1, FORCE_WAKEUP = 2 };

// Reads a member of a structure whose type the verifier does not know. CO-RE relocates the offset.
#define READ(to, member) bpf_probe_read_kernel(&(to), sizeof(to), __builtin_preserve_access_index(&(member)))
// Whether this kernel's structure has the member.
#define EXISTS(member) __builtin_preserve_field_info(member, 2)

// Some helpers require the GPL.
char _license[] SEC("license") = "Dual MIT/GPL";
