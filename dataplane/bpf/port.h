/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Maps of port.bpf.c as user space sees them; dataplane/port.py has the same layouts. */
#ifndef SLUICE_PORT_H
#define SLUICE_PORT_H

#include "../laws/dqs.h"
#include "../laws/drop_order.h"
#include "../laws/mark.h"

#define PORT_QUEUES 8
#define PORTS_MAX 1024
#define PORT_DSCPS 64

/*
 * Flow queues: below OpenFlow queue q is a qdisc with handle PORT_FLOW_MAJOR + q. Its class j + 1
 * is sub-queue j. A packet's mark is the id of its class, or 0 if no sub-queue counts the
 * packet. A port without flow queues changes no mark.
 */
#define PORT_SUB_QUEUES 8
#define PORT_FLOW_MAJOR 0x10

/* Map "settings": key = ifindex; may be written while packets flow. */
struct port_settings {
	struct sl_vq_settings marking;
	struct sl_dqs_settings flow_queues; /* .queues 0: a priority is one queue */
	struct sl_by_rank by_rank;
	__u32 vlan_queue; /* of frames of the operator's VLANs */
	__u32 by_dscp;	  /* enum port_by_dscp */
	__u8 queue_of[PORT_DSCPS];
	__u32 place; /* of the port in the arrays */
	__u32 unused;
};

/* Who chooses the queue. At a switch that Sluice's rules do not forward, the program itself reads the tags. */
enum port_by_dscp {
	PORT_BY_RULE,	  /* a rule has chosen the queue */
	PORT_BY_HEADER,	  /* a rule has, and names it in the priority of any VLAN's header */
	PORT_COUNTS_DSCP, /* count packets by DSCP, and change nothing */
	PORT_QUEUES_DSCP, /* count them, and choose the queue by the DSCP */
};

/* Map "tags": per CPU, key = place. Packets that the port was given, also those that it dropped then. */
struct port_tags {
	struct {
		__u64 packets;
		__u64 bytes; /* with the Ethernet header */
		__u64 ends;  /* TCP's FINs: flows that have ended */
	} of[PORT_DSCPS];
};

struct queue_counters {
	__u64 packets;	    /* passed on, marked or not */
	__u64 bytes;	    /* of those, with the Ethernet header, without the priority tag */
	__u64 marked;	    /* set to CE here */
	__u64 dropped;	    /* beyond the buffer */
	__u64 not_markable; /* due for a mark, but not ECN-capable (or already CE) */
};

/* Map "counters": per CPU, key = place. */
struct port_counters {
	struct queue_counters queues[PORT_QUEUES];
};

/*
 * Map "forwarding": per CPU, one entry. How long the switch took to forward sampled packets, in units
 * of the time of a full frame at the packet's port. counts[0]: less than an eighth of the unit;
 * counts[i]: from 2^(i-1) eighths on; the last one: all above.
 */
#define DELAYS 16
#define DELAYS_IN_UNIT 8
struct delays {
	__u64 counts[DELAYS];
};

/* Key of the map "flow_queues". */
struct port_queue {
	__u32 port; /* ifindex */
	__u32 queue;
};

/* Map "departures": key = ifindex; packets that have left the flow queues, sent or dropped. */
struct departures {
	__u64 last_ns[PORT_QUEUES][PORT_SUB_QUEUES];
	__u32 packets[PORT_QUEUES][PORT_SUB_QUEUES];
	__u64 qdisc;	/* address of the root qdisc */
	__u32 requeues; /* its count of packets that a busy driver gave back */
	__u32 again;	/* of those, the packets that will leave once more */
	__u32 netns;	/* inode of the port's network namespace: each has its own ifindexes */
	__u32 unused;
};

_Static_assert(sizeof(struct port_settings) == 176, "as in port.py");
_Static_assert(sizeof(struct sl_vq_state) == 24, "as in port.py");
_Static_assert(sizeof(struct port_counters) == 320, "as in port.py");
_Static_assert(sizeof(struct port_tags) == 1536, "as in port.py");
_Static_assert(sizeof(struct departures) == 792, "as in port.py");

#endif
