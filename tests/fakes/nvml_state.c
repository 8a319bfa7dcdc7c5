/* See nvml_state.h. Written for this project; no code of any driver is in it. */
#define _GNU_SOURCE
#include "nvml_state.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KEY_SIZE 160

struct entry {
    char *key;
    char *value;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;
static size_t entry_count;
static char *text; /* the loaded file; keys and values point into it */
static char loaded_path[4096];
static struct stat loaded;

static int by_key(const void *left, const void *right)
{
    return strcmp(((const struct entry *)left)->key, ((const struct entry *)right)->key);
}

static char *trimmed(char *start)
{
    char *end;
    start += strspn(start, " \t");
    end = start + strlen(start);
    while (end > start && strchr(" \t\r", end[-1]) != NULL)
        *--end = '\0';
    return start;
}

static void forget(void)
{
    free(entries);
    free(text);
    entries = NULL;
    text = NULL;
    entry_count = 0;
    loaded_path[0] = '\0';
}

static char *whole_file(const char *path, struct stat *status)
{
    FILE *file = fopen(path, "rb");
    char *content = NULL;
    size_t got;
    if (file == NULL)
        return NULL;
    /* The file is replaced, never rewritten: this descriptor sees one whole version. */
    if (fstat(fileno(file), status) == 0)
        content = malloc((size_t)status->st_size + 1);
    if (content != NULL) {
        got = fread(content, 1, (size_t)status->st_size, file);
        content[got] = '\0';
    }
    fclose(file);
    return content;
}

static void parse(void)
{
    size_t lines = 1;
    char *line;
    char *rest = text;
    for (const char *at = text; *at != '\0'; at++)
        lines += *at == '\n';
    entries = calloc(lines, sizeof *entries);
    if (entries == NULL)
        return;
    while ((line = strsep(&rest, "\n")) != NULL) {
        char *equals = strchr(line, '=');
        if (equals == NULL || line[0] == '#')
            continue;
        *equals = '\0';
        entries[entry_count].key = trimmed(line);
        entries[entry_count].value = trimmed(equals + 1);
        entry_count++;
    }
    qsort(entries, entry_count, sizeof *entries, by_key);
}

static int same_file(const char *path, const struct stat *now)
{
    return strcmp(path, loaded_path) == 0 && now->st_ino == loaded.st_ino
        && now->st_size == loaded.st_size && now->st_mtim.tv_sec == loaded.st_mtim.tv_sec
        && now->st_mtim.tv_nsec == loaded.st_mtim.tv_nsec;
}

int state_lock(void)
{
    const char *path = getenv("GPUTAILOR_FAKE_NVML_STATE");
    struct stat now;
    pthread_mutex_lock(&mutex);
    if (path == NULL || stat(path, &now) != 0) {
        forget();
        return 0;
    }
    if (!same_file(path, &now)) {
        forget();
        text = whole_file(path, &loaded);
        if (text == NULL)
            return 0;
        snprintf(loaded_path, sizeof loaded_path, "%s", path);
        parse();
    }
    return 1;
}

void state_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static const char *value_of(const char *key)
{
    struct entry wanted = {(char *)key, NULL};
    struct entry *found = NULL;
    if (entry_count > 0)
        found = bsearch(&wanted, entries, entry_count, sizeof *entries, by_key);
    return found == NULL ? NULL : found->value;
}

#define FORMATTED_KEY(key, format)                     \
    char key[KEY_SIZE];                                \
    va_list arguments;                                 \
    va_start(arguments, format);                       \
    vsnprintf(key, sizeof key, format, arguments);     \
    va_end(arguments)

const char *state_text(const char *format, ...)
{
    FORMATTED_KEY(key, format);
    return value_of(key);
}

double state_number(double fallback, const char *format, ...)
{
    const char *value;
    FORMATTED_KEY(key, format);
    value = value_of(key);
    return value == NULL || *value == '\0' ? fallback : strtod(value, NULL);
}

unsigned long long state_integer(unsigned long long fallback, const char *format, ...)
{
    const char *value;
    FORMATTED_KEY(key, format);
    value = value_of(key);
    return value == NULL || *value == '\0' ? fallback : strtoull(value, NULL, 0);
}

double state_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return state_number((double)now.tv_sec + (double)now.tv_nsec / 1e9, "clock.now");
}

double state_counter_now(void)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return state_number((double)now.tv_sec + (double)now.tv_nsec / 1e9, "clock.now");
}

double state_origin(void)
{
    return state_number(0.0, "clock.origin");
}

/* Integral of a pattern from its phase 0 to x seconds (closed form; x may be negative). */
static double pattern_integral(const char *pattern, double x)
{
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    if (sscanf(pattern, " square:%lf:%lf:%lf:%lf", &a, &b, &c, &d) >= 3) {
        double turns = floor(x / (a + b));
        double rest = x - turns * (a + b);
        return turns * (a * c + b * d) + (rest < a ? rest * c : a * c + (rest - a) * d);
    }
    if (sscanf(pattern, " ramp:%lf:%lf:%lf", &a, &b, &c) == 3) {
        double turns = floor(x / a);
        double rest = x - turns * a;
        return turns * a * (b + c) / 2.0 + b * rest + (c - b) * rest * rest / (2.0 * a);
    }
    return strtod(pattern, NULL) * x;
}

static double pattern_value(const char *pattern, double x)
{
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    if (sscanf(pattern, " square:%lf:%lf:%lf:%lf", &a, &b, &c, &d) >= 3)
        return x - floor(x / (a + b)) * (a + b) < a ? c : d;
    if (sscanf(pattern, " ramp:%lf:%lf:%lf", &a, &b, &c) == 3)
        return b + (c - b) * (x - floor(x / a) * a) / a;
    return strtod(pattern, NULL);
}

/* Where a segment of a timeline ends, in Unix seconds; the last one has no end. */
static double segment_end(const char *segment)
{
    const char *stop = strchr(segment, ';');
    const char *until = strstr(segment, " until ");
    if (until == NULL || (stop != NULL && until > stop))
        return INFINITY;
    return strtod(until + 7, NULL);
}

static const char *next_segment(const char *segment)
{
    const char *stop = strchr(segment, ';');
    return stop == NULL ? NULL : stop + 1;
}

double timeline_integral(const char *key, double from, double to)
{
    const char *segment = value_of(key);
    double origin = state_origin();
    double start = -INFINITY;
    double sum = 0.0;
    for (; segment != NULL; segment = next_segment(segment)) {
        double end = segment_end(segment);
        double low = fmax(from, start);
        double high = fmin(to, end);
        if (high > low)
            sum += pattern_integral(segment, high - origin) - pattern_integral(segment, low - origin);
        start = end;
    }
    return sum;
}

double timeline_mean(const char *key, double from, double to)
{
    const char *segment = value_of(key);
    if (segment == NULL)
        return 0.0;
    if (to > from && strchr(segment, ':') == NULL && strchr(segment, ';') == NULL)
        return strtod(segment, NULL); /* a plain number stays exact, NaN and sentinels included */
    if (to > from)
        return timeline_integral(key, from, to) / (to - from);
    while (segment_end(segment) <= to && next_segment(segment) != NULL)
        segment = next_segment(segment);
    return pattern_value(segment, to - state_origin());
}
