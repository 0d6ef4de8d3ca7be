/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Send SIZE bytes with a deadline and print the outcome. Build: cc -I dataplane/include deadline.c */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "sluice.h"

static int broken(int fd)
{
	int error = 0;
	socklen_t length = sizeof(error);

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) || error;
}

int main(int argc, char **argv)
{
	struct addrinfo *to = NULL, hints = {.ai_socktype = SOCK_STREAM};
	struct sluice_flow flow = {.fields = SLUICE_HAS_SIZE | SLUICE_HAS_DEADLINE | SLUICE_HAS_QUENCH};
	struct sluice_state state = {0};
	socklen_t length = sizeof(state);
	static char data[65536];

	if (argc != 5 || getaddrinfo(argv[1], argv[2], &hints, &to))
		return fprintf(stderr, "usage: %s HOST PORT SIZE MILLISECONDS\n", argv[0]), 2;
	flow.size_bytes = strtoull(argv[3], NULL, 10);
	flow.deadline_ns = strtoll(argv[4], NULL, 10) * 1000000;
	flow.quench = SLUICE_QUENCH_KILL; /* bytes that arrive too late are useless */

	int fd = socket(to->ai_family, SOCK_STREAM, 0);
	if (connect(fd, to->ai_addr, to->ai_addrlen))
		return perror("connect"), 1;
	if (setsockopt(fd, SOL_SLUICE, SLUICE_FLOW, &flow, sizeof(flow)))
		return perror("setsockopt SLUICE_FLOW"), 1;
	for (unsigned long long left = flow.size_bytes; left;) {
		ssize_t sent = send(fd, data, left < sizeof(data) ? left : sizeof(data), MSG_NOSIGNAL);
		if (sent < 0)
			return perror("send"), 1;
		left -= sent;
	}
	do { /* until the receiver has all bytes, the kernel kills the flow, or the connection breaks */
		usleep(1000);
		if (getsockopt(fd, SOL_SLUICE, SLUICE_STATE, &state, &length))
			return perror("getsockopt SLUICE_STATE"), 1;
	} while (state.acked_bytes < flow.size_bytes && state.phase != SLUICE_KILLED && !broken(fd));
	printf("%llu bytes acknowledged, %s\n", state.acked_bytes,
	       state.phase == SLUICE_KILLED	     ? "killed"
	       : state.acked_bytes < flow.size_bytes ? "broken"
						     : "done");
	return state.acked_bytes < flow.size_bytes;
}
