// Waits for lightweight locks by tranche, at the probes that the server's program has itself (USDT).
//
// Every process that runs the program's file stops there; those of other servers are let pass. A tranche is told by the address of its
// name, which is the same in all processes of a server; user space reads the name.

#include "../kernel.h"
#include "../statistic.h"

struct task_struct {
    int tgid;
    struct task_struct *real_parent;
} CORE;

#define TRANCHES 512
#define WAITERS 4096

// When each process began to wait. Of who is killed meanwhile something stays, until there is no room for it.
struct {
    __uint(type, MAP_LRU_HASH);
    __uint(max_entries, WAITERS);
    __type(key, u32);
    __type(value, u64);
} began SEC(".maps");

// Of each name's address, on each processor.
struct {
    __uint(type, MAP_PER_CPU_HASH);
    __uint(max_entries, TRANCHES);
    __type(key, u64);
    __type(value, struct statistic);
} tranches SEC(".maps");

// Waits that no tranche has, for there were too many of these.
struct {
    __uint(type, MAP_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} lost SEC(".maps");

const volatile u32 postmaster_pid = 0;

INLINE int is_of_server(void)
{
    struct task_struct *task = bpf_get_current_task_btf(), *parent = 0;
    u32 pid = 0;
    READ(parent, task->real_parent);
    READ(pid, parent->tgid);
    return pid == postmaster_pid;
}

// The cookie says where the first argument is: which of the registers has it, or what it is behind of.
INLINE u64 read_argument(void *registers)
{
    u64 place = bpf_get_attach_cookie(registers), value = 0;
    bpf_probe_read_kernel(&value, sizeof(value), registers + (place & 0xffff));
    if (place >> 16 & 1) {
        u64 address = value + (long long)(int)(place >> 32);
        bpf_probe_read_user(&value, sizeof(value), (void *)address);
    }
    return value;
}

INLINE struct statistic *statistic_of(u64 name)
{
    struct statistic none = {};
    struct statistic *one = bpf_map_lookup_elem(&tranches, &name);
    if (one)
        return one;
    bpf_map_update_elem(&tranches, &name, &none, NOEXIST);
    return bpf_map_lookup_elem(&tranches, &name);
}

SEC("uprobe/start")
int lwlock_wait_start(void *registers)
{
    u32 pid = (u32)bpf_get_current_pid_tgid();
    u64 now = bpf_ktime_get_ns();
    if (is_of_server())
        bpf_map_update_elem(&began, &pid, &now, ANY);
    return 0;
}

SEC("uprobe/done")
int lwlock_wait_done(void *registers)
{
    u32 pid = (u32)bpf_get_current_pid_tgid();
    u64 *begin = bpf_map_lookup_elem(&began, &pid);
    // Another server's, or it began before anybody looked.
    if (!begin)
        return 0;
    u64 length = bpf_ktime_get_ns() - *begin;
    bpf_map_delete_elem(&began, &pid);
    struct statistic *one = statistic_of(read_argument(registers));
    if (one) {
        one->total += length;
        count_length(one, length);
        return 0;
    }
    u32 first = 0;
    u64 *count = bpf_map_lookup_elem(&lost, &first);
    if (count)
        __sync_fetch_and_add(count, 1);
    return 0;
}
