// SPDX-License-Identifier: Apache-2.0
// The event calendar: a ring of time slots for what is near, a heap for what is far.
//
// A slot lists its events by time, and events of one time in the order in which they were added.
// A link has one arrival in the calendar, however many packets it carries, so that a slot's list
// stays short. Adding and taking an event therefore cost the same on every fabric (Brown,
// "Calendar queues", CACM 31(10), 1988). An event is a part of the object to which it happens, so
// that nothing is allocated. No event can be cancelled: its owner ignores it when it comes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "event/time.hpp"

namespace sluice
{

enum class EventKind : std::uint8_t {
	Arrival,	// the first packet on a link reaches its end
	Retransmission, // a connection's retransmission timer
	AckDelay,	// a receiver's delayed acknowledgement
	Pace,		// a paced connection may send its next packet
	MessageSource,	// a timer of a message at its source …
	MessageSink,	// … and at its sink
	NetworkEpoch,	// a host's levels may send again
	FlowStart,
	FlowEnd,    // an endless flow reaches its end
	Crossing,   // the first packet from another part of the network reaches this part
	Departure,  // a port of a switch whose ports share a buffer may send its next packet
	PauseFrame, // a pause reaches a port, or its end
};

// 24 bytes, of which a derived class may use the last seven.
struct Event {
	Time at = 0;
	Event *next = nullptr;
	EventKind kind = EventKind::Arrival;
};

// An event that comes before others of the same time, and after such ones of a lower rank.
struct RankedEvent : Event {
	std::uint32_t rank = 0;
};

class Calendar
{
      public:
	// `near`: nearly every event is added at most this long before its time.
	explicit Calendar(Time near)
	    : shift_(std::bit_width(static_cast<std::uint64_t>(near) / SLOTS)),
	      horizon_(static_cast<Time>((SLOTS - 1) << shift_))
	{
	}

	Time now() const
	{
		return now_;
	}

	// `event->at` must not be in the past.
	void add(Event *event)
	{
		if (event->at - now_ < horizon_)
			insert(event);
		else
			push_far(event, ++order_);
	}

	// The same for an event that comes before others of its time.
	void add_ranked(RankedEvent *event)
	{
		if (event->at - now_ < horizon_)
			insert_ranked(event);
		else
			push_far(event, event->rank);
	}

	// The time of the next event; NEVER if there is none.
	Time next() const
	{
		return std::min(near_at_, far_at_);
	}

	// Moves the clock on to a time before the next event.
	void advance(Time to)
	{
		now_ = std::max(now_, to);
	}

	// The next event if it is due by `limit`, else nullptr. The clock moves to the event, or
	// to the limit.
	Event *take(Time limit)
	{
		Time at = next();

		if (at > limit || at == NEVER)
			return rest_until(limit);
		if (far_at_ == at && (near_at_ > at || far_goes_before(*slots_[near_slot_])))
			return take_far();
		return take_near();
	}

      private:
	static constexpr std::uint64_t SLOTS = 64 * 64;

	struct Far {
		Time at;
		std::uint64_t order;
		Event *event;

		bool operator<(const Far &other) const // puts the earliest event in front of a heap
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
		Event *&first = slots_[slot_number(event->at) % SLOTS];

		if (first && first->at <= event->at)
			return insert_behind(first, event);
		event->next = first;
		first = event;
		note_first(event->at);
	}

	// Behind the event, and behind those of its own time or an earlier one that follow it.
	static void insert_behind(Event *before, Event *event)
	{
		while (before->next && before->next->at <= event->at)
			before = before->next;
		event->next = before->next;
		before->next = event;
	}

	void insert_ranked(RankedEvent *event)
	{
		Event **place = &slots_[slot_number(event->at) % SLOTS];

		while (*place && precedes(**place, *event))
			place = &(*place)->next;
		event->next = *place;
		*place = event;
		note_first(event->at);
	}

	// The slot has an event of that time, and perhaps it had none.
	void note_first(Time at)
	{
		std::uint64_t number = slot_number(at) % SLOTS;

		occupied_[number / 64] |= 1ULL << number % 64;
		summary_ |= 1ULL << number / 64;
		if (at < near_at_) {
			near_at_ = at;
			near_slot_ = number;
		}
	}

	static bool precedes(const Event &event, const RankedEvent &ranked)
	{
		return event.at < ranked.at || (event.at == ranked.at && goes_before(event, ranked.rank));
	}

	// Of one time, before an event of that rank or order.
	static bool goes_before(const Event &event, std::uint64_t order)
	{
		return event.kind == EventKind::Crossing && static_cast<const RankedEvent &>(event).rank < order;
	}

	// A far event was added before every near event of the same time, so it goes first. But ranks come
	// before that.
	bool far_goes_before(const Event &near) const
	{
		const Far &far = far_.front();

		return far.at < near.at || (far.at == near.at && !goes_before(near, far.order));
	}

	[[gnu::noinline]] void push_far(Event *event, std::uint64_t order)
	{
		far_.push_back({event->at, order, event});
		std::push_heap(far_.begin(), far_.end());
		far_at_ = far_.front().at;
	}

	[[gnu::noinline]] Event *take_far()
	{
		Event *event = far_.front().event;

		now_ = event->at;
		std::pop_heap(far_.begin(), far_.end());
		far_.pop_back();
		far_at_ = far_.empty() ? NEVER : far_.front().at;
		return event;
	}

	Event *rest_until(Time limit)
	{
		advance(limit);
		return nullptr;
	}

	// The first event of the slots. Finds the one after it at once, which the processor fetches from memory
	// while the first one happens.
	Event *take_near()
	{
		Event *&slot = slots_[near_slot_], *first = slot;

		now_ = near_at_;
		slot = first->next;
		if (!slot) {
			std::uint64_t word = near_slot_ / 64;

			occupied_[word] &= ~(1ULL << near_slot_ % 64);
			summary_ &= ~(static_cast<std::uint64_t>(!occupied_[word]) << word);
			if (!summary_) {
				near_at_ = NEVER;
				return first;
			}
			near_slot_ = first_occupied();
		}
		near_at_ = slots_[near_slot_]->at;
		return first;
	}

	// The first slot with an event, from the clock's slot on and round the ring. At least one
	// slot has an event.
	std::uint64_t first_occupied() const
	{
		std::uint64_t from = slot_number(now_) % SLOTS, word = from / 64;
		std::uint64_t here = occupied_[word] >> from % 64;

		if (here)
			return from + lowest_bit(here);
		word = first_from((word + 1) % 64);
		return word * 64 + lowest_bit(occupied_[word]);
	}

	// The first word with an event, from `word` on and round the ring.
	std::uint64_t first_from(std::uint64_t word) const
	{
		std::uint64_t here = summary_ >> word;

		return here ? word + lowest_bit(here) : lowest_bit(summary_);
	}

	// At least one bit must be set. std::countr_zero would also have to answer for none.
	static unsigned lowest_bit(std::uint64_t bits)
	{
		return static_cast<unsigned>(__builtin_ctzll(bits));
	}

	unsigned shift_;
	Time horizon_; // an event that is added less than this before its time has a slot of its own
	Time now_ = 0;
	Time far_at_ = NEVER;				      // of the first event in `far_`
	std::uint64_t summary_ = 0;			      // a bit for each word of `occupied_`
	std::uint64_t near_slot_ = 0;			      // the first slot with an event …
	Time near_at_ = NEVER;				      // … and that event's time
	std::array<Event *, SLOTS> slots_ = {};		      // the first event of each
	std::array<std::uint64_t, SLOTS / 64> occupied_ = {}; // a bit for each slot
	std::vector<Far> far_;
	std::uint64_t order_ = UINT32_MAX; // above every rank
};

} // namespace sluice
