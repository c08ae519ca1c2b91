/* Stops or kills pgthaw right after one of its calls on a cgroup or a connection, and notes all of them, a connection's with the
   statement that it sent last. For LD_PRELOAD. */
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

/* PostgreSQL's messages: Query is Q, a length and the text; Parse is P, a length, a name, a zero byte and the text. */
static void append_statement(char *path, size_t room, const unsigned char *bytes, size_t count)
{
    const unsigned char *text = bytes + 5, *end = bytes + count;
    if (count < 6 || (bytes[0] != 'Q' && bytes[0] != 'P'))
        return;
    if (bytes[0] == 'P')
        text += strnlen((const char *)text, end - text) + 1;
    size_t length = strlen(path);
    path[length++] = ' ';
    for (; text < end && *text && length < room - 1; text++)
        path[length++] = *text < ' ' ? ' ' : *text;
    path[length] = 0;
}

static void note_descriptor(const char *call, int fd, const void *sent, size_t count)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length < 0)
        return;
    path[length] = 0;
    if (sent && !strncmp(path, "socket:", 7))
        append_statement(path, 300, sent, count);
    note(call, path);
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    ssize_t done = syscall(SYS_write, fd, bytes, count);
    if (done > 0)
        note_descriptor("write", fd, NULL, 0);
    return done;
}

ssize_t send(int fd, const void *bytes, size_t count, int flags)
{
    ssize_t done = syscall(SYS_sendto, fd, bytes, count, flags, NULL, 0);
    if (done > 0)
        note_descriptor("send", fd, bytes, count);
    return done;
}

ssize_t recv(int fd, void *bytes, size_t count, int flags)
{
    ssize_t done = syscall(SYS_recvfrom, fd, bytes, count, flags, NULL, NULL);
    if (done > 0)
        note_descriptor("recv", fd, NULL, 0);
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
