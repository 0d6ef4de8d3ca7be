/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Maps of port.bpf.c as user space sees them; dataplane/port.py has the same layouts. */
#ifndef SLUICE_PORT_H
#define SLUICE_PORT_H

#include "../laws/mark.h"

#define PORT_QUEUES 8
#define PORTS_MAX 1024

/* Map "settings": key = ifindex, value = struct sl_vq_settings; may be written while packets flow. */

struct queue_counters {
	__u64 packets;	    /* passed on, marked or not */
	__u64 bytes;	    /* of those, with the Ethernet header, without the priority tag */
	__u64 marked;	    /* set to CE here */
	__u64 dropped;	    /* beyond the buffer */
	__u64 not_markable; /* due for a mark, but not ECN-capable (or already CE) */
};

/* Map "counters": per CPU, key = ifindex. */
struct port_counters {
	struct queue_counters queues[PORT_QUEUES];
};

_Static_assert(sizeof(struct sl_vq_settings) == 48, "as in port.py");
_Static_assert(sizeof(struct sl_vq_state) == 24, "as in port.py");
_Static_assert(sizeof(struct port_counters) == 320, "as in port.py");

#endif
