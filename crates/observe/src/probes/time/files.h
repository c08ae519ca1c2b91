// Records file calls in which processes sleep, and writes to files. files.rs has the same layout.
//
// A call is found when its process goes to sleep in an IO wait event: the saved registers show the call and descriptor.
// No call is intercepted, and every file system works. Time before the first sleep is not seen.

#pragma once

#include "../kernel.h"

// statistic.rs has the same buckets.
#define BUCKETS 32

struct statistic {
    u32 event;
    u32 is_used;
    u64 count;
    // Includes the wait in progress.
    u64 total;
    u64 min;
    u64 max;
    // Bucket 0: below 1024 ns. Bucket n: from 2^(9+n) ns to twice that. The last is unlimited.
    u32 buckets[BUCKETS];
};

INLINE u32 bucket_of(u64 ns)
{
    u64 rest = ns >> 10;
    u32 bucket = 0;
    if (rest >> 32)
        return BUCKETS - 1;
    for (u32 bits = 16; bits; bits >>= 1)
        if (rest >> bits) {
            rest >>= bits;
            bucket += bits;
        }
    bucket += rest ? 1 : 0;
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

// Counts a length that the caller has added to `total`.
INLINE void count_length(struct statistic *one, u64 ns)
{
    u32 bucket = bucket_of(ns);
    if (!one->count || ns < one->min)
        one->min = ns;
    if (ns > one->max)
        one->max = ns;
    one->count += 1;
    HIDE(bucket);
    if (bucket < BUCKETS)
        one->buckets[bucket] += 1;
}

struct qstr {
    const unsigned char *name;
} CORE;
struct dentry {
    struct dentry *d_parent;
    struct qstr d_name;
} CORE;
struct path {
    struct dentry *dentry;
} CORE;
struct super_block {
    u32 s_dev;
} CORE;
struct inode {
    struct super_block *i_sb;
    u64 i_ino;
    u32 i_generation;
} CORE;
struct file {
    struct path f_path;
    struct inode *f_inode;
} CORE;
struct fdtable {
    u32 max_fds;
    struct file **fd;
} CORE;
struct files_struct {
    struct fdtable *fdt;
} CORE;
struct kiocb {
    struct file *ki_filp;
} CORE;
struct iov_iter {
    u64 count;
} CORE;
// Registers of x86-64. On other architectures, no file calls are recorded.
struct pt_regs {
    u64 di;
    u64 orig_ax;
} CORE;

#define IO_EVENTS 0x0a
#define FILES 16384
// Names kept per file, and bytes of each.
#define NAMES 4
#define NAME_BYTES 32

enum call_kind { NO_CALL, SYNC, FLUSH, WRITE };
enum file_class { OTHER_FILE, WAL_FILE, TEMPORARY_FILE, FILE_CLASSES };

struct file_key {
    u32 device;
    // Distinguishes files with a reused inode number.
    u32 generation;
    u64 inode;
};

struct written {
    u64 writes;
    u64 bytes;
};

// The file call in progress, or the last one, in which the process slept.
struct call {
    // First sleep and last wakeup.
    u64 since;
    u64 until;
    u32 number;
    u32 descriptor;
    // Number of the process's write calls, to distinguish successive calls of the same kind for a file.
    u64 written;
    struct file_key file;
    // By all processes between the file's last sync and this call.
    struct written unsynced;
};

struct known_file {
    struct statistic syncs;
    u64 file_class;
    struct written all;
    struct written unsynced;
    // Writes and flushes in which the process slept: number and time.
    u64 sleeps;
    u64 slept;
    // Last writer and its count of writes.
    u64 last_write;
    char names[NAMES][NAME_BYTES];
};

struct slow_call {
    struct call call;
    u64 pid;
};

MAP(files, MAP_HASH, FILES, struct file_key, struct known_file);

// Zeros, to initialize a file.
MAP(new_file, MAP_ARRAY, 1, u32, struct known_file);

RING(slow_calls, 1 << 18);

MAP(written, MAP_ARRAY, FILE_CLASSES, u32, struct written);

// Shorter calls are counted but not reported.
const volatile u64 slow_call_ns = 10000000;

// arch/x86/entry/syscalls/syscall_64.tbl
INLINE u32 kind_of(u32 number)
{
    switch (number) {
    case 74: // fsync
    case 75: // fdatasync
        return SYNC;
    case 277: // sync_file_range
        return FLUSH;
    case 1: // write
    case 18: // pwrite64
    case 20: // writev
    case 285: // fallocate
    case 296: // pwritev
    case 328: // pwritev2
        return WRITE;
    }
    return NO_CALL;
}

INLINE struct file *file_of(struct task_struct *task, u64 descriptor)
{
    struct fdtable *table = task->files->fdt;
    struct file *file = 0;
    if (descriptor < table->max_fds)
        bpf_probe_read_kernel(&file, sizeof(file), table->fd + descriptor);
    return file;
}

INLINE void read_key(struct inode *inode, struct file_key *key)
{
    struct super_block *file_system = 0;
    READ(key->inode, inode->i_ino);
    READ(key->generation, inode->i_generation);
    READ(file_system, inode->i_sb);
    READ(key->device, file_system->s_dev);
}

INLINE u32 class_of(struct known_file *file)
{
    const char *own = file->names[0], *parent = file->names[1];
    if (parent[0] == 'p' && parent[2] == 's' && parent[5] == '_' && parent[6] == 't' && parent[8] == 'p')
        return TEMPORARY_FILE;
    // 000000010000000000000001: only WAL names are this long.
    return own[23] && !own[24] && own[23] != '.' ? WAL_FILE : OTHER_FILE;
}

INLINE void read_names(struct known_file *known, struct file *file, u32 count)
{
    struct dentry *dentry = 0;
    READ(dentry, file->f_path.dentry);
    for (u32 at = 0; at < count; at++) {
        const unsigned char *name = 0;
        READ(name, dentry->d_name.name);
        bpf_probe_read_kernel_str(known->names[at], NAME_BYTES, name);
        READ(dentry, dentry->d_parent);
    }
}

INLINE struct known_file *make_file(struct file_key *key, struct file *file)
{
    u32 zero = 0;
    struct known_file *known = bpf_map_lookup_elem(&new_file, &zero);
    if (!known)
        return 0;
    bpf_map_update_elem(&files, key, known, NOEXIST);
    known = bpf_map_lookup_elem(&files, key);
    if (!known) {
        count_lost(LOST_FILES);
        return 0;
    }
    read_names(known, file, NAMES);
    known->file_class = class_of(known);
    return known;
}

INLINE void begin_call(struct call *call, struct file *file, const struct file_key *asked, u32 kind, u64 now)
{
    struct file_key key = *asked;
    struct known_file *known = bpf_map_lookup_elem(&files, &key);
    if (!known)
        known = make_file(&key, file);
    else if (known->file_class == WAL_FILE)
        // Recycled WAL segments are renamed.
        read_names(known, file, 1);
    call->since = now;
    call->until = now;
    call->file = key;
    call->unsynced = (struct written){};
    if (known)
        call->unsynced = known->unsynced;
    if (known && kind == SYNC)
        known->unsynced = (struct written){};
}

INLINE void end_call(struct call *call, u32 pid)
{
    struct file_key key = call->file;
    u64 length = call->until - call->since;
    struct known_file *known = bpf_map_lookup_elem(&files, &key);
    if (known && kind_of(call->number) == SYNC) {
        __sync_fetch_and_add(&known->syncs.total, length);
        count_length(&known->syncs, length);
    } else if (known) {
        __sync_fetch_and_add(&known->sleeps, 1);
        __sync_fetch_and_add(&known->slept, length);
    }
    if (length >= slow_call_ns) {
        struct slow_call slow = {.call = *call, .pid = pid};
        if (bpf_ringbuf_output(&slow_calls, &slow, sizeof(slow), 0))
            count_lost(LOST_CALLS);
    }
    call->since = 0;
}

INLINE int is_same_call(const struct call *call, u32 number, u32 descriptor, u64 written, const struct file_key *file)
{
    // Successive files may share a descriptor, as in a checkpoint.
    return call->number == number && call->descriptor == descriptor && call->written == written && call->file.inode == file->inode &&
           call->file.generation == file->generation && call->file.device == file->device;
}

// Called when a process leaves the processor, with event 0 if preempted. Returns whether it is in a file call.
INLINE int is_in_call(struct call *call, int was_in_call, struct task_struct *task, u32 event, u64 now)
{
    if (!was_in_call && event >> 24 != IO_EVENTS)
        return 0;
    struct pt_regs *registers = bpf_task_pt_regs(task);
    // Outside system calls, orig_ax has another value.
    u32 kind = EXISTS(registers->orig_ax) ? kind_of((u32)registers->orig_ax) : NO_CALL;
    if (kind) {
        u32 number = (u32)registers->orig_ax, descriptor = (u32)registers->di;
        u64 written = task->ioac.syscw;
        struct file *file = file_of(task, descriptor);
        struct inode *inode = 0;
        struct file_key key = {};
        READ(inode, file->f_inode);
        read_key(inode, &key);
        if (was_in_call && is_same_call(call, number, descriptor, written, &key))
            return 1;
        if (was_in_call)
            end_call(call, task->pid);
        if (event >> 24 != IO_EVENTS)
            return 0;
        call->number = number;
        call->descriptor = descriptor;
        call->written = written;
        begin_call(call, file, &key, kind, now);
        return 1;
    }
    if (was_in_call)
        end_call(call, task->pid);
    return 0;
}

INLINE void add_written(struct written *sum, u64 writes, u64 bytes)
{
    __sync_fetch_and_add(&sum->writes, writes);
    __sync_fetch_and_add(&sum->bytes, bytes);
}

INLINE void count_write(struct inode *inode, u64 bytes)
{
    struct task_struct *task = bpf_get_current_task_btf();
    struct file_key key = {};
    read_key(inode, &key);
    struct known_file *known = bpf_map_lookup_elem(&files, &key);
    if (!known) {
        struct pt_regs *registers = bpf_task_pt_regs(task);
        struct file *file = EXISTS(registers->di) ? file_of(task, (u32)registers->di) : 0;
        struct inode *found = 0;
        READ(found, file->f_inode);
        known = make_file(&key, found == inode ? file : 0);
        if (!known)
            return;
    }
    // A call that writes several pieces counts as one write.
    u64 call = (u64)task->pid << 32 | (u32)task->ioac.syscw;
    u32 is_new = known->last_write != call, file_class = known->file_class;
    known->last_write = call;
    add_written(&known->all, is_new, bytes);
    add_written(&known->unsynced, is_new, bytes);
    struct written *sum = bpf_map_lookup_elem(&written, &file_class);
    if (sum)
        add_written(sum, is_new, bytes);
}
