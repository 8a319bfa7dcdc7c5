/*
 * Notes which functions are used, so that a test of faults need not list them by hand: where the
 * variable GPUTAILOR_FAKE_NVML_NOTES names a file, each function adds lines to it once: "device NAME"
 * or "system NAME" at its first call, "number NAME" where its answer is a number that a state line
 * "raw.NAME.GPU" can replace. All under the library's lock.
 */
#define _GNU_SOURCE
#include "nvml_fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_NOTES 512

static void note(const char *kind, const char *function)
{
    static char noted[MAX_NOTES][96];
    static int count;
    const char *path = getenv("GPUTAILOR_FAKE_NVML_NOTES");
    char line[96];
    int file;
    if (path == NULL)
        return;
    snprintf(line, sizeof line, "%s %s\n", kind, function);
    for (int i = 0; i < count; i++)
        if (strcmp(noted[i], line) == 0)
            return;
    if (count == MAX_NOTES || (file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) < 0)
        return;
    strcpy(noted[count++], line);
    if (write(file, line, strlen(line)) < 0)
        count--; /* noted at the next call */
    close(file);
}

void note_call(const char *function, int gpu)
{
    note(gpu < 0 ? "system" : "device", function);
}

void note_number(const char *function)
{
    note("number", function);
}
