/* Some reads and writes move less than was asked for, as the kernel may do at any time. For LD_PRELOAD. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Counters and the like come whole or not at all. */
#define WHOLE_BYTES 16

static size_t shorten(size_t count)
{
    static unsigned calls;
    const char *every = getenv("SHORT_EVERY");
    if (count <= WHOLE_BYTES || !every || __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % strtoul(every, NULL, 10))
        return count;
    return 1 + count / 3;
}

ssize_t read(int fd, void *bytes, size_t count) { return syscall(SYS_read, fd, bytes, shorten(count)); }

ssize_t write(int fd, const void *bytes, size_t count) { return syscall(SYS_write, fd, bytes, shorten(count)); }

ssize_t pread64(int fd, void *bytes, size_t count, off64_t at)
{
    return syscall(SYS_pread64, fd, bytes, shorten(count), at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at)
{
    return syscall(SYS_pwrite64, fd, bytes, shorten(count), at);
}

ssize_t pread(int fd, void *bytes, size_t count, off_t at) { return pread64(fd, bytes, count, at); }

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) { return pwrite64(fd, bytes, count, at); }
