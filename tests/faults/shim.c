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

/* After a failed sync Linux takes the pages for clean: the next sync succeeds and does not write them, unless they are
 * written to again. KEY.lost holds such pages as they were, and KEY.lost-pages a byte for each page. A page counts as
 * written to again when its bytes differ, or after write or pwrite; the same bytes stored through a map are not seen. */
struct target {
    int durable, lost, lost_pages;
};

static struct target open_target(const char *key) {
    char name[KEY + 16];
    struct target to = {open_record(key, O_RDWR), -1, -1};
    snprintf(name, sizeof name, "%s.lost", key);
    to.lost = open_record(name, O_RDWR);
    snprintf(name, sizeof name, "%s.lost-pages", key);
    to.lost_pages = open_record(name, O_RDWR);
    if (to.durable < 0 || to.lost < 0 || to.lost_pages < 0) abort();
    return to;
}

static void close_target(struct target to) {
    syscall(SYS_close, to.durable);
    syscall(SYS_close, to.lost);
    syscall(SYS_close, to.lost_pages);
}

static void put(int file, const char *from, size_t size, off_t at) {
    if (syscall(SYS_pwrite64, file, from, size, at) != (long)size) abort();
}

static int is_same(int file, const char *from, size_t size, off_t at) {
    char there[PAGE];
    long got = syscall(SYS_pread64, file, there, size, at);
    if (got < 0) got = 0;
    memset(there + got, 0, size - (size_t)got);
    return memcmp(there, from, size) == 0;
}

static int is_lost(struct target to, off_t at) {
    char mark = 0;
    return syscall(SYS_pread64, to.lost_pages, &mark, 1, at / PAGE) == 1 && mark;
}

/* Take a page over that is not yet there as it is now; or lose it, if the sync has failed. */
static void copy_page(struct target to, const char *from, size_t size, off_t at, int failed) {
    if (is_same(to.durable, from, size, at)) return;
    if (is_lost(to, at) && is_same(to.lost, from, size, at)) return;
    put(to.lost_pages, failed ? "\1" : "\0", 1, at / PAGE);
    put(failed ? to.lost : to.durable, from, size, at);
}

static void copy_pages(struct target to, const char *from, off_t at, size_t size, int failed) {
    for (size_t done = 0; done < size; done += PAGE)
        copy_page(to, from + done, size - done < PAGE ? size - done : PAGE, at + (off_t)done, failed);
}

static void copy_data(struct target to, int from, off_t at, off_t end, int failed) {
    static char buffer[1 << 20];
    while (at < end) {
        size_t part = end - at < (off_t)sizeof buffer ? (size_t)(end - at) : sizeof buffer;
        long got = syscall(SYS_pread64, from, buffer, part, at);
        if (got < 0) abort();
        if (got == 0) return;
        copy_pages(to, buffer, at, (size_t)got, failed);
        at += got;
    }
}

/* A file was made durable as it is: its data, its holes, its size. It may have been opened for writing only. */
static void copy_file(struct target to, int fd, off_t size, int failed) {
    char link[64];
    off_t at = 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int from = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC);
    if (from < 0) abort();
    while (at < size) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0) data = errno == ENXIO ? size : at;
        if (data > at && !failed)
            syscall(SYS_fallocate, to.durable, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, data - at);
        off_t hole = data < size ? lseek(from, data, SEEK_HOLE) : size;
        if (hole < 0 || hole > size) hole = size;
        copy_data(to, from, data / PAGE * PAGE, hole, failed);
        at = hole;
    }
    syscall(SYS_close, from);
}

/* A part of a file, from a map of it. */
struct part {
    const char *from;
    off_t at;
    size_t size;
};

static void record_file(int fd, const char *path, const char *key, off_t file_size, const struct part *part, int failed) {
    char line[PATH_MAX + KEY + 16];
    pthread_mutex_lock(&record_lock);
    struct target to = open_target(key);
    if (part) copy_pages(to, part->from, part->at, part->size, failed);
    else copy_file(to, fd, file_size, failed);
    if (!failed && syscall(SYS_ftruncate, to.durable, file_size) != 0) abort();
    close_target(to);
    if (!failed) write_event(line, (size_t)snprintf(line, sizeof line, "file %s %s\n", key, path));
    pthread_mutex_unlock(&record_lock);
}

/* Pages that are written to are dirty again. */
static void record_written(int fd, off_t at, size_t size) {
    char path[PATH_MAX], key[KEY], name[PATH_MAX + KEY];
    if (at < 0 || !is_recorded(path_of(fd, path)) || key_of(fd, NULL, key) != 0) return;
    snprintf(name, sizeof name, "%s/%s.lost-pages", record, key);
    int lost_pages = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC);
    if (lost_pages < 0) return;
    for (off_t page = at / PAGE; page * PAGE < at + (off_t)size; page++) put(lost_pages, "\0", 1, page);
    syscall(SYS_close, lost_pages);
}

/* A directory was made durable: all names in it, as they are. Called with the lock: of two syncs, the one that is
 * recorded last must have seen the names last. */
static void record_names(const char *path) {
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
    write_event(text, size);
    free(text);
}

static void record_directory(const char *path) {
    pthread_mutex_lock(&record_lock);
    record_names(path);
    pthread_mutex_unlock(&record_lock);
}

/* Called before the real sync: what is written meanwhile is not promised. */
static void record_fd(int fd, int failed) {
    char path[PATH_MAX], key[KEY];
    struct stat state;
    if (!record || !is_recorded(path_of(fd, path)) || fstat(fd, &state) != 0) return;
    if (S_ISDIR(state.st_mode) && !failed) record_directory(path);
    if (S_ISREG(state.st_mode) && key_of(fd, NULL, key) == 0) record_file(fd, path, key, state.st_size, NULL, failed);
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
    record_fd(fd, error != 0);
    if (error) FAIL(error, -1);
    return sync(fd);
}

EXPORT int fsync(int fd) { return synced(FSYNC, fd, REAL(fsync)); }
EXPORT int fdatasync(int fd) { return synced(FDATASYNC, fd, REAL(fdatasync)); }

EXPORT int msync(void *start, size_t size, int flags) {
    struct map map;
    int known = (rules || record) && find_map(start, &map);
    int error = is_ruled(MSYNC) ? fault(MSYNC, known ? map.path : NULL) : 0;
    if (known && (flags & MS_SYNC) && is_recorded(map.path)) {
        size_t inside = (size_t)((char *)start - map.start), left = map.size - inside;
        size_t whole = (size + PAGE - 1) / PAGE * PAGE;
        struct part part = {start, map.offset + (off_t)inside, whole < left ? whole : left};
        record_file(-1, map.path, map.key, map.offset + (off_t)map.size, &part, error != 0);
    }
    if (error) FAIL(error, -1);
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
    if (record) record_written(fd, lseek(fd, 0, SEEK_CUR), size);
    return REAL(write)(fd, from, size);
}

EXPORT ssize_t pwrite(int fd, const void *from, size_t size, off_t at) {
    int error = fd_fault(WRITE, fd);
    if (error) FAIL(error, -1);
    if (record) record_written(fd, at, size);
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
