// SPDX-License-Identifier: Apache-2.0
// The event calendar: a ring of time slots for what is near, a heap for what is far.
//
// A slot is a list of its events by time, first come first served at equal times. A link has one arrival in the calendar however
// many packets are on it, so there are a few events a link, a list is short, and adding and taking cost the same however large the
// fabric is (Brown, "Calendar queues", CACM 31(10), 1988). An event is part of what it happens to: nothing is allocated. It
// cannot be cancelled: who no longer wants one ignores it when it comes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "event/time.hpp"

namespace sluice
{

enum class Happening : std::uint8_t {
	Arrival,	// the first packet on a link has come to its end
	Retransmission, // a sender's timer
	AckDelay,	// a receiver's
	Pace,		// a sender may send its next packet
	FlowStart,
	FlowEnd, // of an endless one
};

// 24 bytes. The five spare ones are for whoever derives from it.
struct Event {
	Time at = 0;
	Event *next = nullptr;
	Happening what = Happening::Arrival;
};

class Calendar
{
      public:
	// `near`: nearly all events lie at most this far ahead.
	explicit Calendar(Time near)
	    : shift_(std::bit_width(static_cast<std::uint64_t>(near) / SLOTS)), slots_(SLOTS),
	      occupied_(SLOTS / 64, 0)
	{
	}

	Time now() const
	{
		return now_;
	}

	// `event->at` is not in the past.
	void add(Event *event)
	{
		if (slot_number(event->at) - slot_number(now_) < SLOTS)
			insert(event);
		else
			push_far(event);
	}

	// The next event if it is due by `limit`, else nullptr; the clock is at the event, or at the limit.
	Event *take(Time limit)
	{
		Event *first = summary_ ? slots_[first_occupied()].first : nullptr;

		// A far event was added before any near one of its time: it goes first.
		if (!far_.empty() && (!first || far_.front().at <= first->at))
			return far_.front().at > limit ? rest_until(limit) : take_far();
		if (!first || first->at > limit)
			return rest_until(limit);
		remove_head(first);
		return first;
	}

      private:
	static constexpr std::uint64_t SLOTS = 64 * 64;

	struct Slot {
		Time at = NEVER; // of the first event: it need not be looked up to put another one before it
		Event *first = nullptr;
	};

	struct Far {
		Time at;
		std::uint64_t order;
		Event *event;

		bool operator<(const Far &other) const // of a heap with the earliest in front
		{
			return at != other.at ? at > other.at : order > other.order;
		}
	};

	std::uint64_t slot_number(Time at) const
	{
		return static_cast<std::uint64_t>(at) >> shift_;
	}

	void insert(Event *event)
	{
		std::uint64_t slot = slot_number(event->at) % SLOTS;
		Event **place = &slots_[slot].first;

		if (slots_[slot].at <= event->at)
			do
				place = &(*place)->next;
			while (*place && (*place)->at <= event->at);
		else
			slots_[slot].at = event->at;
		event->next = *place;
		*place = event;
		occupied_[slot / 64] |= 1ULL << slot % 64;
		summary_ |= 1ULL << slot / 64;
	}

	void push_far(Event *event)
	{
		far_.push_back({event->at, order_++, event});
		std::push_heap(far_.begin(), far_.end());
	}

	Event *take_far()
	{
		Event *event = far_.front().event;

		now_ = event->at;
		std::pop_heap(far_.begin(), far_.end());
		far_.pop_back();
		return event;
	}

	Event *rest_until(Time limit)
	{
		now_ = std::max(now_, limit);
		return nullptr;
	}

	void remove_head(Event *first)
	{
		std::uint64_t slot = slot_number(first->at) % SLOTS;

		now_ = first->at;
		slots_[slot].first = first->next;
		slots_[slot].at = first->next ? first->next->at : NEVER;
		if (!first->next) {
			occupied_[slot / 64] &= ~(1ULL << slot % 64);
			if (!occupied_[slot / 64])
				summary_ &= ~(1ULL << slot / 64);
		}
	}

	// The first slot with an event, going round from the clock's. There is one.
	std::uint64_t first_occupied() const
	{
		std::uint64_t from = slot_number(now_) % SLOTS, word = from / 64;
		std::uint64_t here = occupied_[word] >> from % 64;

		if (here)
			return from + std::countr_zero(here);
		word = first_from((word + 1) % 64);
		return word * 64 + std::countr_zero(occupied_[word]);
	}

	// The first word with an event, from `word` on and round.
	std::uint64_t first_from(std::uint64_t word) const
	{
		std::uint64_t here = summary_ >> word;

		return here ? word + std::countr_zero(here) : std::countr_zero(summary_);
	}

	unsigned shift_;
	Time now_ = 0;
	std::vector<Slot> slots_;
	std::vector<std::uint64_t> occupied_; // a bit for each slot
	std::uint64_t summary_ = 0;	      // a bit for each word of `occupied_`
	std::vector<Far> far_;
	std::uint64_t order_ = 0;
};

} // namespace sluice
