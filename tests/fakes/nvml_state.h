/*
 * The state of the fake NVIDIA driver: a text file of "key = value" lines, re-read when it changes.
 *
 * A value that varies in time is a timeline: "PATTERN until UNIX; PATTERN until UNIX; PATTERN".
 * A pattern is a number, "square:ON:OFF:HIGH:LOW" (seconds, then values) or "ramp:PERIOD:LOW:HIGH";
 * its phase counts from the key clock.origin (Unix seconds). tests/fakes/nvml.py writes the file and
 * evaluates the same timelines, so that a test knows what the driver was told.
 */
#ifndef GPUTAILOR_FAKE_NVML_STATE_H
#define GPUTAILOR_FAKE_NVML_STATE_H

/* Takes the one lock of the library and loads the state file anew if it changed. 0: no state. */
int state_lock(void);
void state_unlock(void);

/* The calls below need the lock. Keys are printf formats. */
const char *state_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
double state_number(double fallback, const char *format, ...) __attribute__((format(printf, 2, 3)));
unsigned long long state_integer(unsigned long long fallback, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Unix seconds: the key clock.now if there (a stopped clock), else the system's real time. */
double state_now(void);
/* The same for what the hardware counts: a wall clock that is set (clock_shift.c) does not move it. */
double state_counter_now(void);
double state_origin(void);

/* Mean of the timeline under a key from one Unix time to another; its value where both are equal. */
double timeline_mean(const char *key, double from, double to);
double timeline_integral(const char *key, double from, double to);

#endif
