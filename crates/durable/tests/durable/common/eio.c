/* Fails one of the calls that read or write files whose names contain "eio.store", counted from
 * zero: the one that EIO_AT says, and all later ones if EIO_STAYS is set. EIO_LOG gets a byte for
 * each call that has failed. It is preloaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static _Atomic long calls;

static int fails(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (!strstr(path, "eio.store")) return 0;
    long call = calls++, at = atol(getenv("EIO_AT"));
    if (call != at && (call < at || !getenv("EIO_STAYS"))) return 0;
    int log = open(getenv("EIO_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    if (log >= 0) {
        real(log, "x", 1);
        close(log);
    }
    errno = EIO;
    return 1;
}

#define FAILING(result, name, arguments, names)            \
    result name arguments {                                \
        static result (*real) arguments;                   \
        if (!real) real = dlsym(RTLD_NEXT, #name);         \
        return fails(fd) ? -1 : real names;                \
    }

FAILING(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size))
FAILING(ssize_t, read, (int fd, void *to, size_t size), (fd, to, size))
FAILING(ssize_t, pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at))
FAILING(ssize_t, pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at))
FAILING(ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at))
FAILING(ssize_t, pread64, (int fd, void *to, size_t size, off64_t at), (fd, to, size, at))
FAILING(int, ftruncate, (int fd, off_t size), (fd, size))
FAILING(int, ftruncate64, (int fd, off64_t size), (fd, size))
FAILING(int, fsync, (int fd), (fd))
FAILING(int, fdatasync, (int fd), (fd))
