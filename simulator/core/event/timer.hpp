// SPDX-License-Identifier: Apache-2.0
// A flow's timers. An event cannot be taken off the calendar. If a timer is postponed, its event
// comes early and is added again. If a timer is set to an earlier time, or its flow is gone,
// nothing happens when the old event comes.
#pragma once

#include <memory>
#include <vector>

#include "event/calendar.hpp"

namespace sluice
{

class Flow;

struct TimerEvent : Event {
	Flow *flow = nullptr; // nullptr: no timer waits for this event any more
};

// The pool of timer events. It keeps abandoned events until they have come.
class TimerEvents
{
      public:
	explicit TimerEvents(Calendar &calendar) : calendar(calendar)
	{
	}

	TimerEvent *take()
	{
		if (free_.empty()) {
			all_.push_back(std::make_unique<TimerEvent>());
			return all_.back().get();
		}
		TimerEvent *event = free_.back();

		free_.pop_back();
		return event;
	}

	void put_back(TimerEvent *event)
	{
		free_.push_back(event);
	}

	Calendar &calendar;

      private:
	std::vector<std::unique_ptr<TimerEvent>> all_;
	std::vector<TimerEvent *> free_;
};

class Timer
{
      public:
	Timer(TimerEvents &events, EventKind kind, Flow &flow) : events_(events), flow_(flow), kind_(kind)
	{
	}

	Timer(const Timer &) = delete;
	Timer &operator=(const Timer &) = delete;

	~Timer()
	{
		abandon();
	}

	bool is_set() const
	{
		return due_ != NEVER;
	}

	void set(Time due)
	{
		due_ = due;
		if (event_ && event_->at <= due)
			return;
		abandon();
		event_ = events_.take();
		event_->kind = kind_;
		event_->flow = &flow_;
		event_->at = due;
		events_.calendar.add(event_);
	}

	void clear()
	{
		due_ = NEVER;
	}

	// Called when the event comes. True if the timer is due.
	bool on_event()
	{
		bool is_time = due_ <= events_.calendar.now();

		if (is_set() && !is_time) {
			event_->at = due_;
			events_.calendar.add(event_);
			return false;
		}
		events_.put_back(event_);
		event_ = nullptr;
		due_ = NEVER;
		return is_time;
	}

      private:
	void abandon()
	{
		if (event_)
			event_->flow = nullptr;
	}

	TimerEvents &events_;
	Flow &flow_;
	EventKind kind_;
	Time due_ = NEVER;
	TimerEvent *event_ = nullptr; // the event that is on the calendar, if any
};

} // namespace sluice
