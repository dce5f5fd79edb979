/* Fails calls that read or write files whose names contain EIO_FILES ("eio.store"). EIO_LOG gets a
 * byte for each call that has failed. It is preloaded. Which calls fail:
 *
 * - The one that EIO_AT says, counted from zero, and all later ones if EIO_STAYS is set.
 * - As long as there is the file EIO_WHILE, which has two numbers: one call of so many, by chance,
 *   with this error. Without room (ENOSPC), only those that write. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static _Atomic long calls;

static const char *setting(const char *name, const char *usual) {
    const char *found = getenv(name);
    return found ? found : usual;
}

static int is_at(long call) {
    const char *at = getenv("EIO_AT");
    if (!at || (call != atol(at) && (call < atol(at) || !getenv("EIO_STAYS")))) return 0;
    return EIO;
}

/* By the clock and the number of the call, so that processes which were forked differ. */
static int is_while(long call, int writes) {
    const char *path = getenv("EIO_WHILE");
    int one_in = 1, error = EIO;
    FILE *file = path && access(path, F_OK) == 0 ? fopen(path, "re") : NULL;
    if (!file) return 0;
    int found = fscanf(file, "%d %d", &one_in, &error);
    fclose(file);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned seed = (unsigned)now.tv_nsec ^ (unsigned)call * 2654435761u ^ (unsigned)getpid();
    if (found != 2 || rand_r(&seed) % one_in || (error == ENOSPC && !writes)) return 0;
    return error;
}

static int fails(int fd, int writes) {
    static __thread int is_inside;
    char link[64], path[4096];
    int before = errno;
    if (is_inside) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length < 0) return 0;
    path[length] = 0;
    if (!strstr(path, setting("EIO_FILES", "eio.store"))) return 0;
    is_inside = 1;
    long call = calls++;
    int error = is_at(call);
    if (!error) error = is_while(call, writes);
    int log = error ? open(setting("EIO_LOG", "/dev/null"), O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (log >= 0 && write(log, "x", 1) < 0) error = EIO;
    if (log >= 0) close(log);
    is_inside = 0;
    errno = error ? error : before;
    return error;
}

#define FAILING(result, name, writes, arguments, names)    \
    result name arguments {                                \
        static result (*real) arguments;                   \
        if (!real) real = dlsym(RTLD_NEXT, #name);         \
        return fails(fd, writes) ? -1 : real names;        \
    }

FAILING(ssize_t, write, 1, (int fd, const void *from, size_t size), (fd, from, size))
FAILING(ssize_t, read, 0, (int fd, void *to, size_t size), (fd, to, size))
FAILING(ssize_t, pwrite, 1, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at))
FAILING(ssize_t, pread, 0, (int fd, void *to, size_t size, off_t at), (fd, to, size, at))
FAILING(ssize_t, pwrite64, 1, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at))
FAILING(ssize_t, pread64, 0, (int fd, void *to, size_t size, off64_t at), (fd, to, size, at))
FAILING(ssize_t, pwritev, 1, (int fd, const struct iovec *from, int count, off_t at), (fd, from, count, at))
FAILING(ssize_t, pwritev64, 1, (int fd, const struct iovec *from, int count, off64_t at), (fd, from, count, at))
FAILING(int, ftruncate, 1, (int fd, off_t size), (fd, size))
FAILING(int, ftruncate64, 1, (int fd, off64_t size), (fd, size))
FAILING(int, fsync, 1, (int fd), (fd))
FAILING(int, fdatasync, 1, (int fd), (fd))
