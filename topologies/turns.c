// SPDX-License-Identifier: Apache-2.0
/*
 * Cheaper turns of ovs-vswitchd's main loop, which forwards all packets of the userspace datapath. ovs-vswitchd loads
 * this library before its own (LD_PRELOAD). Each turn looks at every port, however few packets wait. So:
 *
 *   1. The loop pauses before each poll() for SLUICE_PAUSE_NS, and the next turn forwards what came meanwhile.
 *   2. If poll() has just found nothing to read in a socket, accept() and recvmmsg() say so without a system call.
 *   3. Each turn takes and frees 32 receive buffers for each port. They are kept here: the C library keeps only
 *      blocks up to 1 KB ready, and divides and merges the others each time.
 *
 * Only the main thread is concerned.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define FILES 4096

/* Blocks of class c have at least c * STEP - HEADER bytes. HEADER is what the C library adds to each. */
#define STEP 512
#define HEADER 8
#define CLASSES 130
#define KEPT 64

/* The function that this library stands in front of. */
#define NEXT(name)                                                                                                   \
	({                                                                                                           \
		static typeof(name) *next;                                                                           \
		next ? next : (next = (typeof(name) *)dlsym(RTLD_NEXT, #name));                                      \
	})

static pthread_t main_thread;
static struct timespec pause_time;
static char has_nothing[FILES];
static void *blocks[CLASSES][KEPT];
static int kept[CLASSES];

__attribute__((constructor)) static void begin(void)
{
	const char *pause_ns = getenv("SLUICE_PAUSE_NS");

	if (pause_ns)
		pause_time.tv_nsec = atol(pause_ns);
	main_thread = pthread_self();
}

static int in_main_thread(void)
{
	return pthread_equal(pthread_self(), main_thread);
}

int poll(struct pollfd *files, nfds_t count, int timeout_ms)
{
	int ready;

	if (!in_main_thread())
		return NEXT(poll)(files, count, timeout_ms);
	if (timeout_ms)
		nanosleep(&pause_time, NULL);
	memset(has_nothing, 0, sizeof(has_nothing));
	ready = NEXT(poll)(files, count, timeout_ms);
	for (nfds_t i = 0; ready >= 0 && i < count; i++)
		if (files[i].fd >= 0 && files[i].fd < FILES && files[i].events & POLLIN)
			has_nothing[files[i].fd] = !files[i].revents;
	return ready;
}

static int is_empty(int file)
{
	if (!in_main_thread() || file < 0 || file >= FILES || !has_nothing[file])
		return 0;
	errno = EAGAIN;
	return 1;
}

int accept(int file, struct sockaddr *address, socklen_t *length)
{
	return is_empty(file) ? -1 : NEXT(accept)(file, address, length);
}

int recvmmsg(int file, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout)
{
	return is_empty(file) ? -1 : NEXT(recvmmsg)(file, messages, count, flags, timeout);
}

void *malloc(size_t bytes)
{
	size_t class = (bytes + HEADER + STEP - 1) / STEP;

	if (bytes < STEP || class >= CLASSES || !in_main_thread())
		return NEXT(malloc)(bytes);
	return kept[class] ? blocks[class][--kept[class]] : NEXT(malloc)(class * STEP - HEADER);
}

void free(void *block)
{
	size_t class = block && in_main_thread() ? (malloc_usable_size(block) + HEADER) / STEP : 0;

	if (class > 1 && class < CLASSES && kept[class] < KEPT)
		blocks[class][kept[class]++] = block;
	else
		NEXT(free)(block);
}
