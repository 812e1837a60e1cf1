/* The hot loops of the benchmark: what one system call costs must not drown in an interpreter.
 *
 *   fileloop MODE --list FILE [--threads N] [--seconds S] [--passes P] [--block BYTES] [--bytes BYTES] [--latency]
 *
 * FILE holds one path a line. Threads take the paths one after another, P times over the list (0: until S seconds
 * have passed), and stop early after S seconds (0: never). Modes:
 *   read        open, read to the end, close
 *   sequential  as read, in blocks of --block, at most --bytes of each file
 *   stat        fstatat
 *   first       open, read 4096 bytes at the start, close
 *   mmap        map the file and touch one byte of each page
 *   create      create the file empty
 * Prints one JSON object: operations, bytes, seconds, passes, errors, first_error, and with --latency the median
 * and the 99th percentile of one operation in microseconds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LATENCIES = 1 << 20, MAX_THREADS = 64 };

typedef ssize_t (*operation)(const char *path, char *buffer);

static struct {
    operation run;
    char **paths;
    size_t path_count, total_operations; /* total 0: no limit */
    size_t block, byte_limit;
    double seconds;
    int keep_latency;
} plan = {.block = 131072};

static atomic_size_t next_operation;
static atomic_int first_error;
static double started;

typedef struct {
    size_t operations, bytes, errors, latency_count;
    float *latencies_us;
} tally;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static ssize_t read_up_to(const char *path, char *buffer, size_t limit) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    size_t done = 0;
    ssize_t got = 0;
    while (done < limit) {
        size_t wanted = limit - done < plan.block ? limit - done : plan.block;
        got = read(file, buffer, wanted);
        if (got <= 0) break;
        done += got;
    }
    int failure = got < 0 ? errno : 0;
    close(file);
    errno = failure;
    return failure ? -1 : (ssize_t)done;
}

static ssize_t run_read(const char *path, char *buffer) { return read_up_to(path, buffer, (size_t)-1); }

static ssize_t run_sequential(const char *path, char *buffer) {
    return read_up_to(path, buffer, plan.byte_limit ? plan.byte_limit : (size_t)-1);
}

static ssize_t run_first(const char *path, char *buffer) { return read_up_to(path, buffer, 4096); }

static ssize_t run_stat(const char *path, char *buffer) {
    (void)buffer;
    struct stat facts;
    return fstatat(AT_FDCWD, path, &facts, AT_SYMLINK_NOFOLLOW);
}

static ssize_t run_create(const char *path, char *buffer) {
    (void)buffer;
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return file < 0 ? -1 : close(file);
}

static ssize_t run_mmap(const char *path, char *buffer) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    struct stat facts;
    if (fstat(file, &facts) || facts.st_size == 0) {
        int failure = errno;
        close(file);
        errno = failure;
        return facts.st_size == 0 ? 0 : -1;
    }
    volatile const char *bytes = mmap(NULL, facts.st_size, PROT_READ, MAP_SHARED, file, 0);
    int failure = errno;
    close(file);
    if (bytes == MAP_FAILED) {
        errno = failure;
        return -1;
    }
    char sum = 0;
    for (off_t at = 0; at < facts.st_size; at += 4096) sum ^= bytes[at];
    buffer[0] = sum; /* keeps the loop alive */
    munmap((void *)bytes, facts.st_size);
    return facts.st_size;
}

static const struct {
    const char *name;
    operation run;
} modes[] = {{"read", run_read},   {"sequential", run_sequential}, {"stat", run_stat},
             {"first", run_first}, {"mmap", run_mmap},             {"create", run_create}};

static void run_one(tally *mine, size_t index, char *buffer) {
    double before = plan.keep_latency ? now() : 0;
    ssize_t got = plan.run(plan.paths[index % plan.path_count], buffer);
    if (plan.keep_latency && mine->latency_count < MAX_LATENCIES)
        mine->latencies_us[mine->latency_count++] = (now() - before) * 1e6;
    mine->operations++;
    if (got >= 0) {
        mine->bytes += got;
        return;
    }
    int none = 0;
    atomic_compare_exchange_strong(&first_error, &none, errno);
    mine->errors++;
}

static void *work(void *argument) {
    tally *mine = argument;
    char *buffer = aligned_alloc(4096, (plan.block + 8191) & ~(size_t)4095);
    if (plan.keep_latency) mine->latencies_us = malloc(MAX_LATENCIES * sizeof(float));
    if (!buffer || (plan.keep_latency && !mine->latencies_us)) {
        fprintf(stderr, "fileloop: out of memory\n");
        exit(1);
    }
    for (size_t step = 0;; step++) {
        /* A look at the clock costs a tenth of a stat: there, one in 16. */
        int look = plan.run != run_stat || step % 16 == 0;
        if (look && plan.seconds > 0 && now() - started >= plan.seconds) break;
        size_t index = atomic_fetch_add(&next_operation, 1);
        if (plan.total_operations && index >= plan.total_operations) break;
        run_one(mine, index, buffer);
    }
    free(buffer);
    return NULL;
}

static void read_list(const char *name) {
    FILE *list = fopen(name, "r");
    if (!list) {
        fprintf(stderr, "fileloop: cannot open %s: %s\n", name, strerror(errno));
        exit(2);
    }
    char *line = NULL;
    size_t capacity = 0, room = 0;
    for (ssize_t length; (length = getline(&line, &capacity, list)) > 0;) {
        if (line[length - 1] == '\n') line[length - 1] = 0;
        if (plan.path_count == room) plan.paths = realloc(plan.paths, (room = room ? room * 2 : 1024) * sizeof(char *));
        plan.paths[plan.path_count++] = strdup(line);
    }
    free(line);
    fclose(list);
    if (plan.path_count == 0) {
        fprintf(stderr, "fileloop: %s names no file\n", name);
        exit(2);
    }
}

static int by_value(const void *left, const void *right) {
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

static void report(tally *all, int threads, double elapsed) {
    tally sum = {0};
    for (int i = 0; i < threads; i++) sum.latency_count += all[i].latency_count;
    if (plan.keep_latency) sum.latencies_us = malloc((sum.latency_count + 1) * sizeof(float));
    size_t at = 0;
    for (int i = 0; i < threads; i++) {
        sum.operations += all[i].operations, sum.bytes += all[i].bytes, sum.errors += all[i].errors;
        if (!plan.keep_latency) continue;
        memcpy(sum.latencies_us + at, all[i].latencies_us, all[i].latency_count * sizeof(float));
        at += all[i].latency_count;
    }
    printf("{\"operations\": %zu, \"bytes\": %zu, \"seconds\": %.9f, \"passes\": %.4f, \"errors\": %zu, ", sum.operations,
           sum.bytes, elapsed, (double)sum.operations / plan.path_count, sum.errors);
    if (plan.keep_latency && sum.latency_count) {
        qsort(sum.latencies_us, sum.latency_count, sizeof(float), by_value);
        printf("\"median_us\": %.2f, \"p99_us\": %.2f, ", sum.latencies_us[sum.latency_count / 2],
               sum.latencies_us[sum.latency_count * 99 / 100]);
    }
    printf("\"first_error\": \"%s\"}\n", sum.errors ? strerror(first_error) : "");
}

static int usage(void) {
    fprintf(stderr, "fileloop: see the head of fileloop.c for the arguments\n");
    return 2;
}

int main(int count, char **arguments) {
    const char *list = NULL;
    size_t passes = 1;
    int threads = 1;
    if (count < 2) return usage();
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(arguments[1], modes[i].name)) plan.run = modes[i].run;
    for (int i = 2; i < count; i++) {
        const char *value = i + 1 < count ? arguments[i + 1] : "";
        if (!strcmp(arguments[i], "--latency")) plan.keep_latency = 1;
        else if (!strcmp(arguments[i], "--list")) list = value, i++;
        else if (!strcmp(arguments[i], "--threads")) threads = atoi(value), i++;
        else if (!strcmp(arguments[i], "--seconds")) plan.seconds = atof(value), i++;
        else if (!strcmp(arguments[i], "--passes")) passes = strtoul(value, NULL, 10), i++;
        else if (!strcmp(arguments[i], "--block")) plan.block = strtoul(value, NULL, 10), i++;
        else if (!strcmp(arguments[i], "--bytes")) plan.byte_limit = strtoul(value, NULL, 10), i++;
        else return usage();
    }
    if (!plan.run || !list || threads < 1 || threads > MAX_THREADS || !plan.block || (!passes && plan.seconds <= 0))
        return usage();
    read_list(list);
    plan.total_operations = passes * plan.path_count;
    pthread_t workers[MAX_THREADS];
    tally tallies[MAX_THREADS] = {0};
    started = now();
    for (int i = 0; i < threads; i++)
        if (pthread_create(&workers[i], NULL, work, &tallies[i])) return 1;
    for (int i = 0; i < threads; i++) pthread_join(workers[i], NULL);
    report(tallies, threads, now() - started);
    return 0;
}
