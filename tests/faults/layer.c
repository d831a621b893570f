/* A layer between programs and the C library, loaded by LD_PRELOAD, in which the n-th call fails or kills.

   Counted are calls that touch files in one folder, and calls that start processes, in a process and in all that it
   starts: the control is a file that they share. A call fails before it has an effect, a short write after half of it.
   A disk that is full stays full, for calls that take room.
   Stdio writes inside of the C library, out of sight of `write`: `fopen`, `fwrite`, `fflush` and `fclose` stand for it.
   The loader maps libraries out of sight of `mmap`: `dlopen` stands for it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { SHORT = -1, KILL = -2, KILL_GROUP = -3, NAMES = 4096 };

/* As tests/faults/harness.py has it. */
typedef struct {
    int64_t armed, kind, at, stays, count, clock;
    char folder[512];
    char names[NAMES][16];
} Control;

static Control *control;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_CONTROL");
    int file = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *memory = (void *)syscall(SYS_mmap, NULL, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (memory != MAP_FAILED) control = memory;
}

/* The calls that a full disk refuses, now and later. */
#define TAKE_ROOM "create write fwrite fflush fclose fsync rename link mkdir truncate"

/* Count a call; the fault that it is to have, 0 for none. */
static int64_t fault(const char *name) {
    int64_t n = __atomic_add_fetch(&control->count, 1, __ATOMIC_SEQ_CST);
    if (n <= NAMES) strncpy(control->names[n - 1], name, sizeof control->names[0] - 1);
    int hit = n == control->at || (control->stays && n > control->at && strstr(TAKE_ROOM, name));
    if (!control->kind || !hit) return 0;
    if (control->kind == KILL) kill(getpid(), SIGKILL);
    if (control->kind == KILL_GROUP) kill(0, SIGKILL);
    return control->kind;
}

static int inside(const char *path) {
    size_t length = strlen(control->folder);
    return strncmp(path, control->folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int64_t of_file(const char *name, int file) {
    if (!control || !control->armed || file < 0) return 0;
    char link[40], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return inside(path) ? fault(name) : 0;
}

static int64_t of_path(const char *name, int folder, const char *path) {
    if (!control || !control->armed || !path) return 0;
    if (path[0] == '/') return inside(path) ? fault(name) : 0;
    if (folder != AT_FDCWD) return of_file(name, folder);
    char here[4096];
    return getcwd(here, sizeof here) && inside(here) ? fault(name) : 0;
}

static int64_t of_process(const char *name) { return control && control->armed ? fault(name) : 0; }

/* The next function of a name, and the answer to a call that fails with an error number. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL(answer, found)                                                                                            \
    do {                                                                                                               \
        int64_t kind_ = (found);                                                                                       \
        if (kind_) {                                                                                                   \
            errno = kind_ > 0 ? (int)kind_ : EIO;                                                                      \
            return answer;                                                                                             \
        }                                                                                                              \
    } while (0)

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                                        \
        va_end(more);                                                                                                  \
        FAIL(-1, of_path(flags & O_CREAT ? "create" : "open", AT_FDCWD, path));                                        \
        return NEXT(name)(path, flags, mode);                                                                          \
    }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name)                                                                                                  \
    int name(int folder, const char *path, int flags, ...) {                                                           \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                                        \
        va_end(more);                                                                                                  \
        FAIL(-1, of_path(flags & O_CREAT ? "create" : "open", folder, path));                                          \
        return NEXT(name)(folder, path, flags, mode);                                                                  \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

#define OPEN_STREAM(name)                                                                                              \
    FILE *name(const char *restrict path, const char *restrict mode) {                                                 \
        FAIL(NULL, of_path(mode[0] == 'r' ? "open" : "create", AT_FDCWD, path));                                       \
        return NEXT(name)(path, mode);                                                                                 \
    }
OPEN_STREAM(fopen)
OPEN_STREAM(fopen64)

size_t fwrite(const void *restrict bytes, size_t size, size_t count, FILE *restrict stream) {
    int64_t kind = of_file("fwrite", fileno(stream));
    if (!kind) return NEXT(fwrite)(bytes, size, count, stream);
    size_t done = kind == SHORT ? NEXT(fwrite)(bytes, size, count / 2, stream) : 0;
    stream->_flags |= 0x20; /* what `ferror` reads */
    errno = kind > 0 ? (int)kind : ENOSPC;
    return done;
}

int fflush(FILE *stream) {
    if (stream) FAIL(EOF, of_file("fflush", fileno(stream)));
    return NEXT(fflush)(stream);
}

int fclose(FILE *stream) {
    int64_t kind = of_file("fclose", fileno(stream));
    int result = NEXT(fclose)(stream);
    FAIL(EOF, kind);
    return result;
}

#define WRITE(name, type)                                                                                              \
    ssize_t name(int file, const void *bytes, size_t size, type at) {                                                  \
        int64_t kind = of_file("write", file);                                                                         \
        if (kind == SHORT) return NEXT(name)(file, bytes, (size + 1) / 2, at);                                         \
        FAIL(-1, kind);                                                                                                \
        return NEXT(name)(file, bytes, size, at);                                                                      \
    }
WRITE(pwrite, off_t)
WRITE(pwrite64, off64_t)

ssize_t write(int file, const void *bytes, size_t size) {
    int64_t kind = of_file("write", file);
    if (kind == SHORT) return NEXT(write)(file, bytes, (size + 1) / 2);
    FAIL(-1, kind);
    return NEXT(write)(file, bytes, size);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    FAIL(-1, of_file("write", file));
    return NEXT(writev)(file, parts, count);
}

ssize_t read(int file, void *bytes, size_t size) {
    FAIL(-1, of_file("read", file));
    return NEXT(read)(file, bytes, size);
}

#define ON_FILE(name, word, parameters, arguments, answer, type)                                                       \
    type name parameters {                                                                                             \
        FAIL(answer, of_file(word, file));                                                                             \
        return NEXT(name) arguments;                                                                                   \
    }
ON_FILE(fsync, "fsync", (int file), (file), -1, int)
ON_FILE(fdatasync, "fsync", (int file), (file), -1, int)
ON_FILE(ftruncate, "truncate", (int file, off_t size), (file, size), -1, int)
ON_FILE(ftruncate64, "truncate", (int file, off64_t size), (file, size), -1, int)
ON_FILE(mmap, "mmap", (void *at, size_t size, int rights, int flags, int file, off_t from),
        (at, size, rights, flags, file, from), MAP_FAILED, void *)
ON_FILE(mmap64, "mmap", (void *at, size_t size, int rights, int flags, int file, off64_t from),
        (at, size, rights, flags, file, from), MAP_FAILED, void *)

#define ON_PATH(name, word, parameters, arguments, folder, path, answer, type)                                         \
    type name parameters {                                                                                             \
        FAIL(answer, of_path(word, folder, path));                                                                     \
        return NEXT(name) arguments;                                                                                   \
    }
ON_PATH(rename, "rename", (const char *from, const char *to), (from, to), AT_FDCWD, to, -1, int)
ON_PATH(renameat, "rename", (int a, const char *from, int b, const char *to), (a, from, b, to), b, to, -1, int)
ON_PATH(link, "link", (const char *from, const char *to), (from, to), AT_FDCWD, to, -1, int)
ON_PATH(linkat, "link", (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags), b, to,
        -1, int)
ON_PATH(unlink, "unlink", (const char *path), (path), AT_FDCWD, path, -1, int)
ON_PATH(unlinkat, "unlink", (int folder, const char *path, int flags), (folder, path, flags), folder, path, -1, int)
ON_PATH(rmdir, "rmdir", (const char *path), (path), AT_FDCWD, path, -1, int)
ON_PATH(mkdir, "mkdir", (const char *path, mode_t mode), (path, mode), AT_FDCWD, path, -1, int)
ON_PATH(chmod, "chmod", (const char *path, mode_t mode), (path, mode), AT_FDCWD, path, -1, int)
ON_PATH(opendir, "opendir", (const char *path), (path), AT_FDCWD, path, NULL, DIR *)
ON_PATH(dlopen, "dlopen", (const char *path, int flags), (path, flags), AT_FDCWD, path, NULL, void *)

#define ON_PROCESS(name, word, parameters, arguments, answer, type)                                                    \
    type name parameters {                                                                                             \
        FAIL(answer, of_process(word));                                                                                \
        return NEXT(name) arguments;                                                                                   \
    }
ON_PROCESS(fork, "fork", (void), (), -1, pid_t)
ON_PROCESS(execve, "exec", (const char *path, char *const a[], char *const e[]), (path, a, e), -1, int)
ON_PROCESS(execv, "exec", (const char *path, char *const a[]), (path, a), -1, int)
ON_PROCESS(execvp, "exec", (const char *path, char *const a[]), (path, a), -1, int)

/* The child of `vfork` must not return from a function: a copy serves as well. */
pid_t vfork(void) {
    FAIL(-1, of_process("fork"));
    return NEXT(fork)();
}

#define SPAWN(name)                                                                                                    \
    int name(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *restrict actions,       \
             const posix_spawnattr_t *restrict how, char *const a[restrict], char *const e[restrict]) {                \
        int64_t kind = of_process("fork");                                                                             \
        return kind ? (int)kind : NEXT(name)(pid, path, actions, how, a, e);                                           \
    }
SPAWN(posix_spawn)
SPAWN(posix_spawnp)

/* The clock of the day, set forward or back. */
int clock_gettime(clockid_t which, struct timespec *now) {
    int result = NEXT(clock_gettime)(which, now);
    if (result == 0 && control && which == CLOCK_REALTIME) now->tv_sec += control->clock;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int result = NEXT(gettimeofday)(now, zone);
    if (result == 0 && control) now->tv_sec += control->clock;
    return result;
}

time_t time(time_t *kept) {
    time_t now = NEXT(time)(NULL) + (control ? control->clock : 0);
    if (kept) *kept = now;
    return now;
}
