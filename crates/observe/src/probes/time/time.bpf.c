// Where the time of a server's processes goes: every nanosecond from the scheduler's own tracepoints.
//
// A process that is followed has a slot. Its slot says what it does since when; whatever ends that charges the time to it. So
// the times of a slot add up to its life, whatever happens. User space maps the slots and reads each under its sequence
// count. slot.rs has the same layout.

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

// What there was no room for: processes, records of slow calls, and calls and writes of files.
enum { LOST_PROCESSES, LOST_CALLS, LOST_FILES, LOSSES };
MAP(lost, MAP_ARRAY, LOSSES, u32, u64);

INLINE void count_lost(u32 what)
{
    u64 *count = bpf_map_lookup_elem(&lost, &what);
    if (count)
        __sync_fetch_and_add(count, 1);
}

#include "files.h"

// Different waits that one process can tell apart; what is more goes to one place behind them.
#define EVENTS 24
#define SLOTS 2048
// Of who waits for his client to say something (ClientRead), the same in PostgreSQL 13 to 19.
#define CLIENT_READ 0x06000000u
#define BUFFER_PIN 0x04000000u
// A sleep that a signal may interrupt (include/linux/sched.h).
#define INTERRUPTIBLE 1
// Instead of a wait event: its memory could not be read.
#define UNKNOWN 0xffffffffu
// Instead of a wait event: there was no place left for its own.
#define FURTHER 0xfffffffeu

enum state { FREE, RUNNING, READY, WAITING };

// Begins with a line of the processor's cache: what a short wait changes is in that line alone.
struct lined {
    struct statistic statistic;
} __attribute__((aligned(64)));

struct slot {
    // Odd while it is written.
    u64 sequence;
    // When what it does began, by CLOCK_MONOTONIC.
    u64 since;
    // What the statistic of its wait has not been charged yet. Whoever wakes a process, on another processor as a rule, touches this line alone.
    u64 owed;
    u16 state;
    // Of a file, which it has slept in and not been seen to leave.
    u16 is_in_call;
    // Which statistic a wait belongs to.
    u32 place;
    // How long a wait was that has not been counted.
    u64 wait;
    u64 running;
    u64 ready;
    u64 switches;
    // ---- one line of the processor's cache until here, and one more of what else is written when a process goes to sleep ----
    // The scheduler's account of its processor time when it was switched out last.
    u64 exec;
    // When the command was received that is handled now; 0: there is none.
    u64 received;
    u64 commands;
    // Where the number of its event is; 0: that is not certain yet.
    u64 event_at;
    // Times on a processor of which the beginning was not told, and how long they were by the scheduler's account.
    u64 recovered;
    u64 recovered_ns;
    // Ends of waits that were not told: the time ready to run is part of the wait.
    u64 wakes_missed;
    u32 pid;
    u32 padding;
    // ---- the second line ends ----
    u64 started;
    u64 ended;
    // Since the machine booted: with the pid it names a process for good.
    u64 birth;
    // What it asked of a file and slept in: see files.h.
    struct call call;
    // From a command's receipt until the process waits for the next one, or has received that. `event` says nothing here.
    struct lined handled;
    struct lined events[EVENTS + 1];
} __attribute__((aligned(64)));

struct {
    __uint(type, MAP_ARRAY);
    __uint(map_flags, MMAPABLE);
    __uint(max_entries, SLOTS);
    __type(key, u32);
    __type(value, struct slot);
} slots SEC(".maps");

// By pid, the number of the slot of a process that is followed, from 1 on. It is looked at for each process that is switched, woken or
// receives anything: the code that finds an entry of an array is a part of the program. Whoever loads this makes it as long as there are pids.
MAP(tasks, MAP_ARRAY, 1, u32, u32);

// Slots that are all zeros.
struct {
    __uint(type, MAP_QUEUE);
    __uint(max_entries, SLOTS);
    __uint(key_size, 0);
    __uint(value_size, 4);
} unused SEC(".maps");

// Where every process of the server has a pointer, and how far behind what it points to the event's number is; and whose children they are.
const volatile u64 wait_event_pointer = 0;
const volatile u64 wait_event_offset = 0;
// What that pointer is in a process that has no entry in shared memory, as the postmaster; NOT_KNOWN: that could not be read.
#define NOT_KNOWN (~0ull)
const volatile u64 pointer_without_entry = NOT_KNOWN;
const volatile u32 postmaster_pid = 0;
// Do others see stores in the order in which a processor makes them, as on x86-64? Then the compiler alone has to keep it.
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
        // A slot is written on one processor at a time, under the lock of its process's run queue or by the process itself.
        BARRIER();
        slot->sequence += 1;
        BARRIER();
        return;
    }
    // An atomic operation whose result is used is a full barrier on every processor.
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

// The wait is over: it is one of its kind, with a length.
INLINE void count_wait(struct slot *slot)
{
    u64 wait = slot->wait;
    if (!wait)
        return;
    count_length(statistic_at(slot, slot->place), wait);
    slot->wait = 0;
}

// What was received last is handled.
INLINE void end_command(struct slot *slot, u64 now)
{
    if (!slot->received)
        return;
    u64 length = now - slot->received;
    slot->handled.statistic.total += length;
    count_length(&slot->handled.statistic, length);
    slot->received = 0;
}

// A backend sleeps several times for a lock: deadlock_timeout wakes it. The same holds for a pin of a buffer. The other events of
// that class, since PostgreSQL 19, are lightweight locks: each sleep is a wait.
INLINE int may_go_on(u32 event)
{
    return event >> 24 == 0x03 || event == BUFFER_PIN;
}

// The statistic of the wait is charged what it is owed.
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

// The place of an event, made where there is none yet.
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

// Of the process that goes to sleep now, in this state: its memory is at hand. To read there is the dearest that is done here.
//
// A process has one entry in shared memory from soon after its birth until just before its end, and points to that alone. So the place is
// kept. Without an entry, in its last moments, a process still waits for disks and for memory, and then its pointer is asked again: the
// entry may be another's by then. It is not where a signal may interrupt the sleep and the entry says that it waits for something. A
// process without one sleeps so only where it writes a last line to a log that takes none.
INLINE u32 read_event(struct slot *slot, u32 state)
{
    u64 pointer = 0, known = slot->event_at;
    u32 event = 0;
    if (known && state & INTERRUPTIBLE && !bpf_probe_read_user(&event, sizeof(event), (void *)known) && event)
        return event;
    if (bpf_probe_read_user(&pointer, sizeof(pointer), (void *)wait_event_pointer))
        return UNKNOWN;
    slot->event_at = 0;
    // A process of PostgreSQL 13 that has no entry in shared memory, such as the postmaster.
    if (!pointer)
        return 0;
    if (bpf_probe_read_user(&event, sizeof(event), (void *)(pointer + wait_event_offset)))
        return UNKNOWN;
    if (pointer_without_entry != NOT_KNOWN && pointer != pointer_without_entry)
        slot->event_at = pointer + wait_event_offset;
    return event;
}

// It ran until now.
INLINE void charge_run(struct slot *slot, struct task_struct *task, u64 now)
{
    u64 exec = task->se.sum_exec_runtime;
    u64 elapsed = now - slot->since;
    if (slot->state == RUNNING) {
        slot->running += elapsed;
    } else {
        // It came on a processor untold, as from the idle task of some: the scheduler knows how long it had it.
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

// Whoever woke it has written to its slot, on another processor as a rule. So that is on its way while the other process is charged.
INLINE void ask_ahead(struct slot *slot)
{
    u64 since = slot->since, count = statistic_at(slot, slot->place)->count;
    HIDE(since);
    HIDE(count);
}

// bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state
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
        // Who is preempted, or was woken on his way to sleep, can run on.
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

// struct task_struct *p
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

// struct task_struct *parent, struct task_struct *child
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
        // Nobody would ever end it.
        slot->ended = now;
    }
    count_lost(LOST_PROCESSES);
    return 0;
}

// struct task_struct *p
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

// struct sock *sk, int ret, int flags: what a client sent was received.
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
    // Who has the next one already never waited for it.
    end_command(slot, now);
    slot->received = now;
    begin_or_end_write(slot);
    return 0;
}

// struct inode *inode, loff_t pos, unsigned int len, unsigned int copied
SEC("raw_tp/ext4")
int time_ext4_write(u64 *ctx)
{
    if (find_slot((u32)bpf_get_current_pid_tgid()))
        count_write((struct inode *)ctx[0], (u32)ctx[3]);
    return 0;
}

// struct kiocb *iocb, struct iov_iter *iter
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
