/*
 * time.c: time that passes only by waiting, see sockets.h.
 */
#include "sockets.h"

#include <time.h>
#include <unistd.h>

int64		fuzz_now_us = 1000000;

extern int	__wrap_clock_gettime(clockid_t clock, struct timespec *t);
extern int	__wrap_usleep(useconds_t us);

int
__wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	t->tv_sec = fuzz_now_us / 1000000;
	t->tv_nsec = fuzz_now_us % 1000000 * 1000;
	return 0;
}

int
__wrap_usleep(useconds_t us)
{
	fuzz_now_us += Max(us, 1);
	return 0;
}
