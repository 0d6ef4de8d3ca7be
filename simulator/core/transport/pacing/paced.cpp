// SPDX-License-Identifier: Apache-2.0
#include "transport/pacing/paced.hpp"

#include "transport/connection.hpp"
#include "transport/flow.hpp"

namespace sluice
{

Paced::Paced(TimerEvents &timers, Flow &flow) : timer_(timers, EventKind::Pace, flow)
{
}

void Paced::release(Connection &connection)
{
	while (connection.window_is_open() && connection.has_to_send()) {
		Time due = sent_at_ + connection.gap();

		if (due > connection.now())
			return timer_.set(due);
		sent_at_ = connection.now();
		connection.send_one();
	}
}

void Paced::on_timer(Connection &connection)
{
	if (timer_.on_event())
		release(connection);
}

} // namespace sluice
