/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The attained-service tag: how much the flow had sent before this packet.
 *
 *   attained(packet) = first byte of the packet - first byte of the flow        [bytes]
 *   tag(packet)      = 1 + |{ edges < shown(packet) }|, at most 40              (buckets closed on the right)
 *   shown(packet)    = max(attained(packet), attained(packet) + payload(packet) - SL_TAG_BURST_BYTES)
 *
 * TCP may build packets of 64 KB, which are cut into segments after they have got their one tag. Such a packet shows
 * the place of its tenth segment from the end. So at most EDGE(t) + SL_TAG_BURST_BYTES bytes of a flow leave under tags
 * up to t, whatever the offload, and its first window of ten segments still has tag 1. A single segment shows what it
 * has attained.
 *
 * Source: the host tagging of PIAS (Bai et al., NSDI 2015, section 4.1), where a packet's priority
 * follows the bytes that its flow has sent. Here the tag holds the bytes, on the logarithmic scale
 * of policy/tags.py.
 *
 * A flow is one direction of a 5-tuple between idle gaps. New data begins a flow if all data
 * before it has been acknowledged and the last of it left more than the gap ago. So each message
 * of a connection that carries many messages begins in bucket 1.
 *
 * The gap is at least two round trips (sl_tag_gap_ns), and a flow with data in flight is never
 * idle. A flow may wait in a low queue, or have a window that is small for its round trip. It must
 * not count as a new flow then, because it would move to the top priority and overtake itself.
 *   - A retransmission carries the tag of its place in the flow and begins no flow. So after a
 *     timeout longer than the gap, the flow is still the same. A retransmission counts as
 *     activity.
 *   - Packets without data (pure ACKs, FIN, probes) carry the bytes that the flow has attained.
 *     They neither begin nor prolong a flow.
 *   - Retransmitted bytes of an earlier flow get tag 1, because the receiver cannot read the
 *     present flow without them.
 *
 * Positions are 64-bit extensions of the 32-bit sequence number, so that a flow beyond 4 GB never
 * wraps into the top priority. They are right for 2^64 - 2^33 bytes in all. Each packet must be
 * within 2^31 bytes of the highest sent byte; TCP's own windows are below 2^30.
 */
#ifndef SLUICE_LAWS_TAG_H
#define SLUICE_LAWS_TAG_H

#include "tags.gen.h"
#include "types.h"

/* One direction of one connection. All zero: nothing sent yet. */
struct sl_tag_state {
	sl_u64 start;	     /* position of the flow's first byte */
	sl_u64 end;	     /* position after the highest byte sent; 0: no packet seen */
	sl_u64 last_data_ns; /* when the last packet with data left */
};

/* Position of the first sequence number: so high that an older packet's is not below zero. */
#define SL_TAG_ORIGIN (1ULL << 32)

/* Tag of a packet whose flow had sent `attained_bytes` before it. Any input. */
SL_LAW sl_u32 sl_attained_tag(sl_u64 attained_bytes)
{
	sl_u32 below = 0; /* edges known to be below `attained_bytes` */
	sl_u32 step;

	for (step = 32; step; step >>= 1)
		if (below + step <= SL_ATTAINED_BUCKETS && sl_attained_edges_bytes[below + step - 1] < attained_bytes)
			below += step;
	return SL_TAG_ATTAINED_FIRST + (below < SL_ATTAINED_BUCKETS ? below : SL_ATTAINED_BUCKETS - 1);
}

/* What a packet's tag shows (above). */
SL_LAW sl_u64 sl_tag_shown(sl_u64 attained_bytes, sl_u32 data_bytes)
{
	return data_bytes > SL_TAG_BURST_BYTES ? attained_bytes + data_bytes - SL_TAG_BURST_BYTES : attained_bytes;
}

/* Tag of a deadline flow with urgency s (Q16, ucp.h); larger tags are more urgent. */
SL_LAW sl_u32 sl_urgency_tag(sl_u32 urgency_q16)
{
	sl_u32 step = 0;

	while (step < SL_URGENCY_STEPS - 1 && sl_urgency_edges_q16[step] < urgency_q16)
		step++;
	return SL_TAG_URGENCY_FIRST + step;
}

/*
 * Tag of a packet of a deadline flow: as for any flow until it has sent `urgent_after_bytes`, then
 * by urgency. A flow that has sent little may be short, and a short flow in front costs others
 * little.
 */
SL_LAW sl_u32 sl_deadline_tag(sl_u64 attained_bytes, sl_u64 urgent_after_bytes, sl_u32 urgency_q16)
{
	return attained_bytes < urgent_after_bytes ? sl_attained_tag(attained_bytes) : sl_urgency_tag(urgency_q16);
}

/* Tag of a flow whose size is known. */
SL_LAW sl_u32 sl_known_size_tag(sl_u64 size_bytes)
{
	sl_u32 size_class = 0;

	while (size_class < SL_KNOWN_SIZE_CLASSES - 1 && sl_known_size_edges_bytes[size_class] < size_bytes)
		size_class++;
	return SL_TAG_KNOWN_SIZE_FIRST + size_class;
}

/* Idle gap for this smoothed round-trip time: as configured, but at least two round trips. */
SL_LAW sl_u64 sl_tag_gap_ns(sl_u64 configured_ns, sl_u32 srtt_us)
{
	sl_u64 two_trips_ns = 2000ULL * srtt_us;

	return configured_ns > two_trips_ns ? configured_ns : two_trips_ns;
}

/* Is `now_ns` more than the gap after the last data? A time read earlier on another CPU is not. */
SL_LAW int sl_tag_idle(const struct sl_tag_state *s, sl_u64 now_ns, sl_u64 idle_gap_ns)
{
	return now_ns > s->last_data_ns && now_ns - s->last_data_ns > idle_gap_ns;
}

/* Position of `seq`: of its 2^32 candidates, the nearest to the highest sent byte. */
SL_LAW sl_u64 sl_tag_position(const struct sl_tag_state *s, sl_u32 seq)
{
	return s->end + (sl_u64)(long long)(sl_s32)(seq - (sl_u32)s->end);
}

/*
 * Return the bytes that the flow had sent before this TCP segment, and update the state. Call it
 * for a SYN only if it carries data (TCP Fast Open).
 * seq: sequence number of the segment's first byte, which is after a SYN. data_bytes: its payload.
 * acked_seq: the first byte that the receiver has not acknowledged.
 */
SL_LAW sl_u64 sl_tag_segment(struct sl_tag_state *s, sl_u32 seq, sl_u32 data_bytes, sl_u32 acked_seq, sl_u64 now_ns,
			     sl_u64 idle_gap_ns)
{
	sl_u64 from, to;

	if (!s->end)
		s->start = s->end = SL_TAG_ORIGIN + seq;
	from = sl_tag_position(s, seq);
	to = from + data_bytes;
	if (!data_bytes) { /* a FIN's sequence number is no byte of the flow */
		from = from < s->end ? from : s->end;
	} else {
		if (to > s->end && acked_seq == (sl_u32)s->end && sl_tag_idle(s, now_ns, idle_gap_ns))
			s->start = from > s->end ? from : s->end;
		if (to > s->end)
			s->end = to;
		s->last_data_ns = now_ns;
	}
	return from > s->start ? from - s->start : 0;
}

/* The state of a flow whose beginning was not seen. It counts as larger than every edge until it has been idle. */
SL_LAW void sl_tag_unseen(struct sl_tag_state *s, sl_u32 seq, sl_u64 now_ns)
{
	s->start = seq; /* below SL_TAG_ORIGIN, as no other flow's */
	s->end = SL_TAG_ORIGIN + seq;
	s->last_data_ns = now_ns;
}

SL_LAW int sl_tag_is_unseen(const struct sl_tag_state *s)
{
	return s->end && s->start < SL_TAG_ORIGIN;
}

/*
 * Return the bytes that the flow had sent before the data that follows, for a socket that carries its tag itself.
 * sent_bytes: of the connection, until now. is_acked: all of them are acknowledged. A retransmission has the tag of new
 * data here.
 */
SL_LAW sl_u64 sl_tag_next(struct sl_tag_state *s, sl_u64 sent_bytes, int is_acked, sl_u64 now_ns, sl_u64 idle_gap_ns)
{
	if (is_acked && sl_tag_idle(s, now_ns, idle_gap_ns))
		s->start = sent_bytes;
	s->last_data_ns = now_ns;
	return sent_bytes - s->start;
}

/*
 * Has this direction carried data yet? A direction without data is no flow, so the tagger leaves
 * its FIN untagged. Switches count tagged FINs as completed flows, and must not count the idle
 * half of each connection.
 */
SL_LAW int sl_tag_carried_data(const struct sl_tag_state *s)
{
	return s->end != s->start;
}

/* For datagrams, which have no sequence number: the sum of the payloads since the last gap. */
SL_LAW sl_u64 sl_tag_datagram(struct sl_tag_state *s, sl_u32 data_bytes, sl_u64 now_ns, sl_u64 idle_gap_ns)
{
	sl_u64 attained;

	if (sl_tag_idle(s, now_ns, idle_gap_ns))
		s->start = s->end;
	attained = s->end - s->start;
	s->end += data_bytes;
	s->last_data_ns = now_ns;
	return attained;
}

#endif
