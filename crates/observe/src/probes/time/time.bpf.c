// Charges every nanosecond of a server's processes, from the scheduler's tracepoints.
//
// Each followed process has a slot with its state and that state's start. Every change charges the time to the old
// state, so the times add up to the process's life. User space reads each mapped slot under its sequence count. slot.rs
// has the same layout.

#include "../kernel.h"

enum { MSG_PEEK = 2 };

struct sched_entity {
    u64 sum_exec_runtime;
} CORE;
struct task_io_accounting {
    u64 syscw;
} CORE;
struct task_struct {
    int pid;
    int tgid;
    struct sched_entity se;
    u64 start_boottime;
    struct files_struct *files;
    struct task_io_accounting ioac;
} CORE;

enum { LOST_PROCESSES, LOST_CALLS, LOST_FILES, LOSSES };
MAP(lost, MAP_ARRAY, LOSSES, u32, u64);

INLINE void count_lost(u32 what)
{
    u64 *count = bpf_map_lookup_elem(&lost, &what);
    if (count)
        __sync_fetch_and_add(count, 1);
}

#include "files.h"

// Maximum distinct waits of a process. Further waits share one statistic.
#define EVENTS 24
#define SLOTS 2048
// The same in PostgreSQL 13 to 19.
#define CLIENT_READ 0x06000000u
#define BUFFER_PIN 0x04000000u
// include/linux/sched.h
#define INTERRUPTIBLE 1
// Stands for a wait event that could not be read.
#define UNKNOWN 0xffffffffu
// Stands for all wait events of a process beyond the first EVENTS.
#define FURTHER 0xfffffffeu

enum state { FREE, RUNNING, READY, WAITING };

// Statistic, aligned so that a short wait changes only one cache line.
struct lined {
    struct statistic statistic;
} __attribute__((aligned(64)));

struct slot {
    // Odd during a write.
    u64 sequence;
    // Start of the state, CLOCK_MONOTONIC.
    u64 since;
    // Time not yet charged to the wait's statistic. The waker, usually on another processor, touches only this cache
    // line.
    u64 owed;
    u16 state;
    // Whether the process is in a file call, as far as known.
    u16 is_in_call;
    // Index of the wait's statistic.
    u32 place;
    // Length of a wait not yet counted.
    u64 wait;
    u64 running;
    u64 ready;
    u64 switches;
    // ---- first cache line ends; the second is also written at a sleep ----
    // Processor time by the scheduler's count, at the last switch.
    u64 exec;
    // When the current command was received, or 0.
    u64 received;
    u64 commands;
    // Cached address of the process's wait event number, or 0.
    u64 event_at;
    // Runs whose start was missed. Their length is from the scheduler's account.
    u64 recovered;
    u64 recovered_ns;
    // Waits whose wakeup was missed. They include the wait for a processor.
    u64 wakes_missed;
    u32 pid;
    u32 padding;
    // ---- second line ends ----
    u64 started;
    u64 ended;
    // Start time since boot. Unique together with the pid.
    u64 birth;
    struct call call;
    // Times of commands. A command lasts from its receipt until the process waits for the next command or, without
    // waiting, receives it.
    struct lined handled;
    struct lined events[EVENTS + 1];
} __attribute__((aligned(64)));

FLAGGED_MAP(slots, MAP_ARRAY, SLOTS, u32, struct slot, MMAPABLE);

// Slot numbers from 1, by pid. Array lookups are inlined, which matters at every switch. The loader sets the size.
MAP(tasks, MAP_ARRAY, 1, u32, u32);

// Unused slots, which are zeroed.
struct {
    __uint(type, MAP_QUEUE);
    __uint(max_entries, SLOTS);
    __uint(key_size, 0);
    __uint(value_size, 4);
} unused SEC(".maps");

// Address of the pointer my_wait_event_info (PostgreSQL 13: MyProc), and offset of the event number from its target.
const volatile u64 wait_event_pointer = 0;
const volatile u64 wait_event_offset = 0;
// Value of the pointer at `wait_event_pointer` in a process without an entry (PGPROC) in shared memory, such as the
// postmaster. NOT_KNOWN: unreadable.
#define NOT_KNOWN (~0ull)
const volatile u64 pointer_without_entry = NOT_KNOWN;
const volatile u32 postmaster_pid = 0;
// Whether stores become visible in program order, as on x86-64. Then a compiler barrier suffices.
const volatile u32 stores_in_order = 0;

INLINE struct slot *find_slot(u32 pid)
{
    u32 *number = bpf_map_lookup_elem(&tasks, &pid);
    if (!number || !*number)
        return 0;
    u32 index = *number - 1;
    return bpf_map_lookup_elem(&slots, &index);
}

INLINE void begin_or_end_write(struct slot *slot)
{
    if (stores_in_order) {
        // Writes to a slot never overlap: the run queue's lock or the process itself orders them.
        BARRIER();
        slot->sequence += 1;
        BARRIER();
        return;
    }
    // An atomic operation with a used result is a full barrier on every processor.
    u64 before = __sync_fetch_and_add(&slot->sequence, 1);
    HIDE(before);
}

INLINE struct statistic *statistic_at(struct slot *slot, u32 place)
{
    HIDE(place);
    if (place > EVENTS)
        place = EVENTS;
    return &slot->events[place].statistic;
}

INLINE void count_wait(struct slot *slot)
{
    u64 wait = slot->wait;
    if (!wait)
        return;
    count_length(statistic_at(slot, slot->place), wait);
    slot->wait = 0;
}

INLINE void end_command(struct slot *slot, u64 now)
{
    if (!slot->received)
        return;
    u64 length = now - slot->received;
    slot->handled.statistic.total += length;
    count_length(&slot->handled.statistic, length);
    slot->received = 0;
}

// Whether one wait may take several sleeps: deadlock_timeout interrupts waits for locks and pins. Since PostgreSQL 19,
// the class of pins also contains LWLocks, where each sleep is a wait.
INLINE int may_go_on(u32 event)
{
    return event >> 24 == 0x03 || event == BUFFER_PIN;
}

INLINE void settle(struct slot *slot)
{
    u64 owed = slot->owed;
    if (!owed)
        return;
    struct statistic *one = statistic_at(slot, slot->place);
    one->total += owed;
    slot->owed = 0;
    if (!may_go_on(one->event))
        count_wait(slot);
}

INLINE void owe(struct slot *slot, u64 ns)
{
    slot->owed += ns;
    slot->wait += ns;
}

INLINE u32 place_of(struct slot *slot, u32 event)
{
    u32 first = (event * 0x9e3779b1u) >> 28;
    for (u32 step = 0; step < EVENTS; step++) {
        u32 place = first + step;
        if (place >= EVENTS)
            place -= EVENTS;
        struct statistic *one = statistic_at(slot, place);
        if (!one->is_used) {
            one->is_used = 1;
            one->event = event;
            return place;
        }
        if (one->event == event)
            return place;
    }
    struct statistic *further = &slot->events[EVENTS].statistic;
    further->is_used = 1;
    further->event = FURTHER;
    return EVENTS;
}

// Reads the wait event of a process about to sleep, the most expensive step here. Tries the cached address first,
// because a process keeps one shared memory entry nearly all its life. An exiting process gives up its entry, and
// another process may take over the entry. So the pointer is read again if the sleep is uninterruptible or the entry
// shows no event. Other sleeps hardly need the second read: an exiting process sleeps interruptibly only to write a
// last line to a blocked log.
INLINE u32 read_event(struct slot *slot, u32 state)
{
    u64 pointer = 0, known = slot->event_at;
    u32 event = 0;
    if (known && state & INTERRUPTIBLE && !bpf_probe_read_user(&event, sizeof(event), (void *)known) && event)
        return event;
    if (bpf_probe_read_user(&pointer, sizeof(pointer), (void *)wait_event_pointer))
        return UNKNOWN;
    slot->event_at = 0;
    // In PostgreSQL 13, the process has no shared memory entry.
    if (!pointer)
        return 0;
    if (bpf_probe_read_user(&event, sizeof(event), (void *)(pointer + wait_event_offset)))
        return UNKNOWN;
    if (pointer_without_entry != NOT_KNOWN && pointer != pointer_without_entry)
        slot->event_at = pointer + wait_event_offset;
    return event;
}

INLINE void charge_run(struct slot *slot, struct task_struct *task, u64 now)
{
    u64 exec = task->se.sum_exec_runtime;
    u64 elapsed = now - slot->since;
    if (slot->state == RUNNING) {
        slot->running += elapsed;
    } else {
        // The kernel did not report the run's start, as may happen after the idle task. The scheduler knows its length.
        u64 ran = exec - slot->exec;
        if (ran > elapsed)
            ran = elapsed;
        slot->running += ran;
        slot->recovered += 1;
        slot->recovered_ns += ran;
        if (slot->is_in_call)
            slot->call.until = now - ran;
        if (slot->state == WAITING)
            owe(slot, elapsed - ran);
        else
            slot->ready += elapsed - ran;
        settle(slot);
    }
    slot->exec = exec;
    slot->since = now;
}

// Prefetches cache lines that the waker wrote, usually on another processor.
INLINE void ask_ahead(struct slot *slot)
{
    u64 since = slot->since, count = statistic_at(slot, slot->place)->count;
    HIDE(since);
    HIDE(count);
}

// Arguments: bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state
SEC("tp_btf/sched_switch")
int time_switch(u64 *ctx)
{
    struct task_struct *before = (struct task_struct *)ctx[1];
    struct task_struct *after = (struct task_struct *)ctx[2];
    u64 now = 0;
    u32 pid = before->pid;
    struct slot *slot = pid ? find_slot(pid) : 0;
    pid = after->pid;
    struct slot *next = pid ? find_slot(pid) : 0;
    if (next)
        ask_ahead(next);
    if (slot) {
        // The process was preempted, or was woken before it slept.
        int can_run = (ctx[0] & 0xff) || !(u32)ctx[3];
        u32 event = can_run ? 0 : read_event(slot, (u32)ctx[3]);
        now = bpf_ktime_get_ns();
        begin_or_end_write(slot);
        charge_run(slot, before, now);
        if (can_run) {
            slot->state = READY;
        } else {
            u32 place = place_of(slot, event);
            if (place != slot->place)
                count_wait(slot);
            slot->place = place;
            slot->state = WAITING;
            if (event == CLIENT_READ)
                end_command(slot, now);
            if (slot->is_in_call || event >> 24 == IO_EVENTS)
                slot->is_in_call = is_in_call(&slot->call, slot->is_in_call, before, event, now);
        }
        begin_or_end_write(slot);
    }
    slot = next;
    if (slot) {
        if (!now)
            now = bpf_ktime_get_ns();
        begin_or_end_write(slot);
        u64 elapsed = now - slot->since;
        if (slot->state == WAITING) {
            slot->wakes_missed += 1;
            owe(slot, elapsed);
        } else if (slot->state == READY) {
            slot->ready += elapsed;
        } else {
            slot->running += elapsed;
        }
        settle(slot);
        if (slot->is_in_call)
            slot->call.until = now;
        slot->state = RUNNING;
        slot->since = now;
        slot->switches += 1;
        begin_or_end_write(slot);
    }
    return 0;
}

// Argument: struct task_struct *p
SEC("tp_btf/sched_wakeup")
int time_wakeup(u64 *ctx)
{
    struct task_struct *task = (struct task_struct *)ctx[0];
    struct slot *slot = find_slot(task->pid);
    if (!slot || slot->state != WAITING)
        return 0;
    u64 now = bpf_ktime_get_ns();
    begin_or_end_write(slot);
    owe(slot, now - slot->since);
    slot->state = READY;
    slot->since = now;
    begin_or_end_write(slot);
    return 0;
}

SEC("tp_btf/sched_process_fork")
int time_fork(u64 *ctx)
{
    struct task_struct *parent = (struct task_struct *)ctx[0];
    struct task_struct *child = (struct task_struct *)ctx[1];
    u32 pid = child->pid, index = 0;
    if (parent->pid != postmaster_pid || pid != child->tgid)
        return 0;
    if (!bpf_map_pop_elem(&unused, &index)) {
        struct slot *slot = bpf_map_lookup_elem(&slots, &index);
        if (!slot)
            return 0;
        u64 now = bpf_ktime_get_ns();
        begin_or_end_write(slot);
        slot->pid = pid;
        slot->birth = child->start_boottime;
        slot->started = now;
        slot->since = now;
        slot->state = READY;
        slot->place = EVENTS + 1;
        begin_or_end_write(slot);
        u32 *number = bpf_map_lookup_elem(&tasks, &pid);
        if (number) {
            *number = index + 1;
            return 0;
        }
        // `time_exit` cannot find this slot, so it ends here.
        slot->ended = now;
    }
    count_lost(LOST_PROCESSES);
    return 0;
}

// Argument: struct task_struct *p
SEC("tp_btf/sched_process_exit")
int time_exit(u64 *ctx)
{
    struct task_struct *task = (struct task_struct *)ctx[0];
    u32 pid = task->pid;
    struct slot *slot = find_slot(pid);
    u32 *number = bpf_map_lookup_elem(&tasks, &pid);
    if (!slot || !number)
        return 0;
    *number = 0;
    u64 now = bpf_ktime_get_ns();
    begin_or_end_write(slot);
    charge_run(slot, task, now);
    count_wait(slot);
    end_command(slot, now);
    if (slot->is_in_call)
        end_call(&slot->call, pid);
    slot->is_in_call = 0;
    slot->ended = now;
    slot->state = FREE;
    begin_or_end_write(slot);
    return 0;
}

// Arguments: struct sock *sk, int ret, int flags
SEC("tp_btf/sock_recv_length")
int time_receive(u64 *ctx)
{
    if ((int)ctx[1] <= 0 || ((int)ctx[2] & MSG_PEEK))
        return 0;
    struct slot *slot = find_slot((u32)bpf_get_current_pid_tgid());
    if (!slot)
        return 0;
    u64 now = bpf_ktime_get_ns();
    begin_or_end_write(slot);
    slot->commands += 1;
    // If the process did not wait for this command, the previous one ends here.
    end_command(slot, now);
    slot->received = now;
    begin_or_end_write(slot);
    return 0;
}

// Arguments: struct inode *inode, loff_t pos, unsigned int len, unsigned int copied
SEC("raw_tp/ext4")
int time_ext4_write(u64 *ctx)
{
    if (find_slot((u32)bpf_get_current_pid_tgid()))
        count_write((struct inode *)ctx[0], (u32)ctx[3]);
    return 0;
}

// Arguments: struct kiocb *iocb, struct iov_iter *iter
SEC("raw_tp/xfs")
int time_xfs_write(u64 *ctx)
{
    if (!find_slot((u32)bpf_get_current_pid_tgid()))
        return 0;
    struct kiocb *asked = (struct kiocb *)ctx[0];
    struct iov_iter *from = (struct iov_iter *)ctx[1];
    struct file *file = 0;
    struct inode *inode = 0;
    u64 bytes = 0;
    READ(file, asked->ki_filp);
    READ(inode, file->f_inode);
    READ(bytes, from->count);
    count_write(inode, bytes);
    return 0;
}
