// SPDX-License-Identifier: Apache-2.0
// A flow's timers. An event cannot be taken off the calendar: of a timer that is put off, the event comes early and is added
// again; of one that is set to an earlier time, or whose flow has gone, it comes to nothing.
#pragma once

#include <memory>
#include <vector>

#include "event/calendar.hpp"

namespace sluice
{

class Flow;

struct TimerEvent : Event {
	Flow *flow = nullptr; // nobody waits for it any more: nullptr
};

// Events of timers, those that come to nothing included.
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
	Timer(TimerEvents &events, Happening what, Flow &flow) : events_(events), flow_(flow), what_(what)
	{
	}

	Timer(const Timer &) = delete;
	Timer &operator=(const Timer &) = delete;

	~Timer()
	{
		forsake();
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
		forsake();
		event_ = events_.take();
		event_->what = what_;
		event_->flow = &flow_;
		event_->at = due;
		events_.calendar.add(event_);
	}

	void clear()
	{
		due_ = NEVER;
	}

	// The event has come. True: it is time.
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
	void forsake()
	{
		if (event_)
			event_->flow = nullptr;
	}

	TimerEvents &events_;
	Flow &flow_;
	Happening what_;
	Time due_ = NEVER;
	TimerEvent *event_ = nullptr; // on the calendar
};

} // namespace sluice
