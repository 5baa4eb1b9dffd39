/* Preloaded into a process under test: system calls that fail or are slow, and a record of what was made durable.
 *
 * HANABI_FAULTS_CONTROL  a file of rules, mapped and shared with the test (layout: tests/faults/shim.py)
 * HANABI_FAULTS_RECORD   a directory for what fsync, fdatasync and msync made durable (read by tests/faults/power_cut.py)
 * HANABI_FAULTS_ROOT     the directory whose files are recorded
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RULES 16
#define PAGE 4096
#define KEY 64
#define EXPORT __attribute__((visibility("default")))

enum call { NONE, FSYNC, FDATASYNC, MSYNC, MMAP, FALLOCATE, PTHREAD_CREATE, OPEN, PREAD, WRITE, FTRUNCATE, RENAME, UNLINK };

struct rule {
    _Atomic uint32_t call; /* written last by the test; NONE: no rule */
    int32_t error;         /* 0: only slow */
    uint64_t delay_us;
    uint64_t after; /* so many matching calls pass first */
    uint64_t times; /* so many are hit */
    _Atomic uint64_t seen;
    _Atomic uint64_t hit;
    char pattern[464]; /* of the path, as fnmatch has it; empty: any call, with or without a path */
};

struct map {
    struct map *next;
    char *start;
    size_t size;
    off_t offset;
    char key[KEY];
    char path[PATH_MAX];
};

static struct rule *rules;
static const char *record, *root;
static struct map *maps;
static pthread_mutex_t maps_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t record_lock = PTHREAD_MUTEX_INITIALIZER;

/* The functions behind ours. */

#define REAL(name) ({ static void *found; if (!found) found = real(#name); (__typeof__(&name))found; })

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

__attribute__((constructor)) static void begin(void) {
    const char *control = getenv("HANABI_FAULTS_CONTROL");
    record = getenv("HANABI_FAULTS_RECORD");
    root = getenv("HANABI_FAULTS_ROOT");
    int file = control ? (int)syscall(SYS_openat, AT_FDCWD, control, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = (void *)syscall(SYS_mmap, NULL, RULES * sizeof(struct rule), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (page != MAP_FAILED) rules = page;
}

/* Rules */

static int is_ruled(enum call call) {
    for (int i = 0; rules && i < RULES; i++)
        if (rules[i].call == call) return 1;
    return 0;
}

/* Wait as the rule says, or until the test takes it away. */
static void delay(struct rule *rule, enum call call) {
    for (uint64_t left = rule->delay_us; left && rule->call == call;) {
        uint64_t step = left < 2000 ? left : 2000;
        struct timespec wait = {0, (long)step * 1000};
        nanosleep(&wait, NULL);
        left -= step;
    }
}

/* Apply the rules for a call; the errno that it fails with, or 0. */
static int fault(enum call call, const char *path) {
    for (int i = 0; rules && i < RULES; i++) {
        struct rule *rule = &rules[i];
        if (rule->call != call) continue;
        if (rule->pattern[0] && (!path || fnmatch(rule->pattern, path, 0) != 0)) continue;
        uint64_t seen = atomic_fetch_add(&rule->seen, 1);
        if (seen < rule->after || seen - rule->after >= rule->times) continue;
        int error = rule->error;
        atomic_fetch_add(&rule->hit, 1);
        delay(rule, call);
        if (error) return error;
    }
    return 0;
}

static char *path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    path[size < 0 ? 0 : size] = 0;
    return path;
}

static int fd_fault(enum call call, int fd) {
    char path[PATH_MAX];
    return is_ruled(call) ? fault(call, path_of(fd, path)) : 0;
}

/* The record: for each inode its durable bytes in a file of their own, and a line an event in the file `events`. */

static int is_recorded(const char *path) {
    size_t size = root ? strlen(root) : 0;
    return record && size && strncmp(path, root, size) == 0 && (path[size] == '/' || path[size] == 0);
}

/* A name for an inode that is not used again: numbers are, so the time of birth is part of it. */
static int key_of(int fd, const char *path, char *key) {
    struct statx state;
    int flags = path ? AT_SYMLINK_NOFOLLOW : AT_EMPTY_PATH;
    if (statx(path ? AT_FDCWD : fd, path ? path : "", flags, STATX_INO | STATX_BTIME, &state) != 0) return -1;
    snprintf(key, KEY, "%" PRIu64 "-%" PRId64 ".%u", (uint64_t)state.stx_ino, (int64_t)state.stx_btime.tv_sec,
             state.stx_btime.tv_nsec);
    return 0;
}

static int open_record(const char *name, int flags) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", record, name);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CREAT | O_CLOEXEC, 0644);
}

static void write_event(const char *text, size_t size) {
    int file = open_record("events", O_WRONLY | O_APPEND);
    if (file < 0 || syscall(SYS_write, file, text, size) != (long)size) abort();
    syscall(SYS_close, file);
}

/* Copy the pages that are not yet there as they are now. */
static void copy_pages(int to, const char *from, off_t at, size_t size) {
    char there[PAGE];
    for (size_t done = 0; done < size; done += PAGE) {
        size_t part = size - done < PAGE ? size - done : PAGE;
        long got = syscall(SYS_pread64, to, there, part, at + (off_t)done);
        if (got < 0) got = 0;
        memset(there + got, 0, part - (size_t)got);
        if (memcmp(there, from + done, part) == 0) continue;
        if (syscall(SYS_pwrite64, to, from + done, part, at + (off_t)done) != (long)part) abort();
    }
}

static void copy_data(int to, int from, off_t at, off_t end) {
    static char buffer[1 << 20];
    while (at < end) {
        size_t part = end - at < (off_t)sizeof buffer ? (size_t)(end - at) : sizeof buffer;
        long got = syscall(SYS_pread64, from, buffer, part, at);
        if (got <= 0) return;
        copy_pages(to, buffer, at, (size_t)got);
        at += got;
    }
}

/* A file was made durable as it is: its data, its holes, its size. */
static void copy_file(int to, int from, off_t size) {
    off_t at = 0, was = lseek(from, 0, SEEK_CUR);
    while (at < size) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0) data = errno == ENXIO ? size : at;
        if (data > at) syscall(SYS_fallocate, to, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, data - at);
        off_t hole = data < size ? lseek(from, data, SEEK_HOLE) : size;
        if (hole < 0 || hole > size) hole = size;
        copy_data(to, from, data, hole);
        at = hole;
    }
    if (was >= 0) lseek(from, was, SEEK_SET);
}

static void record_synced(int fd, const char *path, const char *key, off_t file_size, const char *from, off_t at, size_t size) {
    char line[PATH_MAX + KEY + 16];
    pthread_mutex_lock(&record_lock);
    int to = open_record(key, O_RDWR);
    if (to < 0) abort();
    if (from) copy_pages(to, from, at, size);
    else copy_file(to, fd, file_size);
    if (syscall(SYS_ftruncate, to, file_size) != 0) abort();
    syscall(SYS_close, to);
    write_event(line, (size_t)snprintf(line, sizeof line, "file %s %s\n", key, path));
    pthread_mutex_unlock(&record_lock);
}

/* A directory was made durable: all names in it, as they are. */
static void record_directory(const char *path) {
    DIR *directory = opendir(path);
    char *text = NULL, key[KEY], name[PATH_MAX + 256];
    size_t size = 0;
    FILE *lines = directory ? open_memstream(&text, &size) : NULL;
    if (!lines) return;
    fprintf(lines, "directory %s\n", path);
    for (struct dirent *entry; (entry = readdir(directory));) {
        struct stat state;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] == '.' && (!entry->d_name[1] || entry->d_name[1] == '.')) continue;
        if (lstat(name, &state) != 0 || key_of(-1, name, key) != 0) continue;
        if (S_ISREG(state.st_mode)) fprintf(lines, "name %s %lld %s\n", key, (long long)state.st_size, entry->d_name);
        if (S_ISDIR(state.st_mode)) fprintf(lines, "folder %s\n", entry->d_name);
    }
    fclose(lines);
    closedir(directory);
    pthread_mutex_lock(&record_lock);
    write_event(text, size);
    pthread_mutex_unlock(&record_lock);
    free(text);
}

/* Called before the real sync: what is written meanwhile is not promised. */
static void record_fd(int fd) {
    char path[PATH_MAX], key[KEY];
    struct stat state;
    if (!record || !is_recorded(path_of(fd, path)) || fstat(fd, &state) != 0) return;
    if (S_ISDIR(state.st_mode)) record_directory(path);
    else if (S_ISREG(state.st_mode) && key_of(fd, NULL, key) == 0)
        record_synced(fd, path, key, state.st_size, NULL, 0, 0);
}

/* Maps of files: msync is told an address, not a file. */

static void remember_map(void *start, size_t size, int fd, off_t offset) {
    struct map *map = calloc(1, sizeof *map);
    if (!map) abort();
    map->start = start, map->size = size, map->offset = offset;
    path_of(fd, map->path);
    key_of(fd, NULL, map->key);
    pthread_mutex_lock(&maps_lock);
    map->next = maps, maps = map;
    pthread_mutex_unlock(&maps_lock);
}

static void forget_maps(char *start, size_t size) {
    pthread_mutex_lock(&maps_lock);
    for (struct map **at = &maps; *at;) {
        struct map *map = *at;
        if (map->start >= start && map->start < start + size) *at = map->next, free(map);
        else at = &map->next;
    }
    pthread_mutex_unlock(&maps_lock);
}

static int find_map(const char *at, struct map *found) {
    pthread_mutex_lock(&maps_lock);
    struct map *map = maps;
    while (map && !(at >= map->start && at < map->start + map->size)) map = map->next;
    if (map) *found = *map;
    pthread_mutex_unlock(&maps_lock);
    return map != NULL;
}

/* The calls */

#define FAIL(error, result) do { errno = (error); return (result); } while (0)

static int synced(enum call call, int fd, int (*sync)(int)) {
    int error = fd_fault(call, fd);
    if (error) FAIL(error, -1);
    record_fd(fd);
    return sync(fd);
}

EXPORT int fsync(int fd) { return synced(FSYNC, fd, REAL(fsync)); }
EXPORT int fdatasync(int fd) { return synced(FDATASYNC, fd, REAL(fdatasync)); }

EXPORT int msync(void *start, size_t size, int flags) {
    struct map map;
    int known = (rules || record) && find_map(start, &map);
    int error = is_ruled(MSYNC) ? fault(MSYNC, known ? map.path : NULL) : 0;
    if (error) FAIL(error, -1);
    if (known && (flags & MS_SYNC) && is_recorded(map.path)) {
        off_t at = map.offset + ((char *)start - map.start);
        size_t whole = (size + PAGE - 1) / PAGE * PAGE, left = map.size - (size_t)((char *)start - map.start);
        record_synced(-1, map.path, map.key, map.offset + (off_t)map.size, start, at, whole < left ? whole : left);
    }
    return REAL(msync)(start, size, flags);
}

static void *mapped(void *start, size_t size, int protection, int flags, int fd, off_t offset) {
    int error = fd >= 0 ? fd_fault(MMAP, fd) : is_ruled(MMAP) ? fault(MMAP, NULL) : 0;
    if (error) FAIL(error, MAP_FAILED);
    void *found = REAL(mmap)(start, size, protection, flags, fd, offset);
    if (found != MAP_FAILED && fd >= 0 && (flags & MAP_SHARED) && (rules || record)) remember_map(found, size, fd, offset);
    return found;
}

EXPORT void *mmap(void *start, size_t size, int protection, int flags, int fd, off_t offset) {
    return mapped(start, size, protection, flags, fd, offset);
}
EXPORT void *mmap64(void *start, size_t size, int protection, int flags, int fd, off_t offset) {
    return mapped(start, size, protection, flags, fd, offset);
}

EXPORT int munmap(void *start, size_t size) {
    if (maps) forget_maps(start, size);
    return REAL(munmap)(start, size);
}

EXPORT int posix_fallocate(int fd, off_t at, off_t size) {
    int error = fd_fault(FALLOCATE, fd);
    return error ? error : REAL(posix_fallocate)(fd, at, size);
}
EXPORT int posix_fallocate64(int fd, off_t at, off_t size) { return posix_fallocate(fd, at, size); }

EXPORT int fallocate(int fd, int mode, off_t at, off_t size) {
    int error = fd_fault(FALLOCATE, fd);
    if (error) FAIL(error, -1);
    return REAL(fallocate)(fd, mode, at, size);
}
EXPORT int fallocate64(int fd, int mode, off_t at, off_t size) { return fallocate(fd, mode, at, size); }

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    int error = is_ruled(PTHREAD_CREATE) ? fault(PTHREAD_CREATE, NULL) : 0;
    return error ? error : REAL(pthread_create)(thread, attributes, run, argument);
}

static int opened(int directory, const char *path, int flags, mode_t mode) {
    int error = is_ruled(OPEN) ? fault(OPEN, path) : 0;
    if (error) FAIL(error, -1);
    return REAL(openat)(directory, path, flags, mode);
}

#define MODE(flags, mode) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }

EXPORT int open(const char *path, int flags, ...) { MODE(flags, mode) return opened(AT_FDCWD, path, flags, mode); }
EXPORT int open64(const char *path, int flags, ...) { MODE(flags, mode) return opened(AT_FDCWD, path, flags, mode); }
EXPORT int openat(int directory, const char *path, int flags, ...) { MODE(flags, mode) return opened(directory, path, flags, mode); }
EXPORT int openat64(int directory, const char *path, int flags, ...) { MODE(flags, mode) return opened(directory, path, flags, mode); }

EXPORT ssize_t pread(int fd, void *to, size_t size, off_t at) {
    int error = fd_fault(PREAD, fd);
    if (error) FAIL(error, -1);
    return REAL(pread)(fd, to, size, at);
}
EXPORT ssize_t pread64(int fd, void *to, size_t size, off_t at) { return pread(fd, to, size, at); }

EXPORT ssize_t write(int fd, const void *from, size_t size) {
    int error = fd_fault(WRITE, fd);
    if (error) FAIL(error, -1);
    return REAL(write)(fd, from, size);
}

EXPORT ssize_t pwrite(int fd, const void *from, size_t size, off_t at) {
    int error = fd_fault(WRITE, fd);
    if (error) FAIL(error, -1);
    return REAL(pwrite)(fd, from, size, at);
}
EXPORT ssize_t pwrite64(int fd, const void *from, size_t size, off_t at) { return pwrite(fd, from, size, at); }

EXPORT int ftruncate(int fd, off_t size) {
    int error = fd_fault(FTRUNCATE, fd);
    if (error) FAIL(error, -1);
    return REAL(ftruncate)(fd, size);
}
EXPORT int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

EXPORT int rename(const char *from, const char *to) {
    int error = is_ruled(RENAME) ? fault(RENAME, to) : 0;
    if (error) FAIL(error, -1);
    return REAL(rename)(from, to);
}

EXPORT int unlink(const char *path) {
    int error = is_ruled(UNLINK) ? fault(UNLINK, path) : 0;
    if (error) FAIL(error, -1);
    return REAL(unlink)(path);
}
