/* Stops or kills pgthaw right after one of its calls on a cgroup or a connection, and notes all of them. For LD_PRELOAD. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The programs that pgthaw starts have the library too. */
static int is_pgthaw;

__attribute__((constructor)) static void look(void)
{
    is_pgthaw = !strcmp(program_invocation_short_name, "pgthaw");
}

/* STRIKE_LOG gets a line for each call on a path that contains STRIKE_WHERE; after line STRIKE_AT comes STRIKE_SIGNAL.
   strace counts the calls of each thread, so that no point of it is a certain call of all. */
static void note(const char *call, const char *path)
{
    static unsigned calls;
    const char *where = getenv("STRIKE_WHERE"), *at = getenv("STRIKE_AT");
    char line[PATH_MAX + 16];
    if (!is_pgthaw || !where || !strstr(path, where))
        return;
    unsigned number = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    int length = snprintf(line, sizeof(line), "%s %s\n", call, path);
    int log = open(getenv("STRIKE_LOG"), O_WRONLY | O_APPEND | O_CLOEXEC);
    syscall(SYS_write, log, line, length);
    close(log);
    if (at && number == strtoul(at, NULL, 10))
        kill(getpid(), atoi(getenv("STRIKE_SIGNAL")));
}

static void note_descriptor(const char *call, int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length < 0)
        return;
    path[length] = 0;
    note(call, path);
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    ssize_t done = syscall(SYS_write, fd, bytes, count);
    if (done > 0)
        note_descriptor("write", fd);
    return done;
}

ssize_t send(int fd, const void *bytes, size_t count, int flags)
{
    ssize_t done = syscall(SYS_sendto, fd, bytes, count, flags, NULL, 0);
    if (done > 0)
        note_descriptor("send", fd);
    return done;
}

ssize_t recv(int fd, void *bytes, size_t count, int flags)
{
    ssize_t done = syscall(SYS_recvfrom, fd, bytes, count, flags, NULL, NULL);
    if (done > 0)
        note_descriptor("recv", fd);
    return done;
}

int mkdir(const char *path, mode_t mode)
{
    int failed = syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (!failed)
        note("mkdir", path);
    return failed;
}

int rmdir(const char *path)
{
    int failed = syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
    if (!failed)
        note("rmdir", path);
    return failed;
}
