// SPDX-License-Identifier: Apache-2.0
#include "transport/messages/homa.hpp"

#include <algorithm>

#include "laws/tag.h"
#include "transport/flow.hpp"

namespace sluice
{

namespace
{

// The queue rule "by-level" gives a packet with this tag the queue of the level (policy/schemes/queues.py).
std::uint8_t tag_of_level(std::size_t level)
{
	return static_cast<std::uint8_t>(SL_TAG_ATTAINED_FIRST + level);
}

} // namespace

// ── The sink of many messages ───────────────────────────────────────────────────────────────────────

void HomaSink::on_arrival(HomaMessage &message, const HomaSettings &settings)
{
	auto place = std::find(waiting_.begin(), waiting_.end(), &message);

	if (place == waiting_.end())
		place = waiting_.insert(place, &message);
	for (; place != waiting_.begin() && message.missing() < (*std::prev(place))->missing(); --place)
		std::iter_swap(place, std::prev(place));
	grant(settings);
}

// The messages that are served have the lowest levels, so that a shorter one that comes later has a higher one
// (section 3.4). A message whose packets are all granted makes room for another.
void HomaSink::grant(const HomaSettings &settings)
{
	const std::size_t most = settings.levels - settings.unscheduled_levels;
	std::size_t i = 0, served = std::min(waiting_.size(), most);

	while (i < served) {
		auto level = static_cast<std::uint8_t>(settings.levels - served + i);

		if (!waiting_[i]->grant(settings.round_trip_packets, level)) {
			i++;
			continue;
		}
		waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
		served = std::min(waiting_.size(), most);
	}
}

void HomaSink::forget(const HomaMessage &message)
{
	std::erase(waiting_, &message);
}

// ── A message ───────────────────────────────────────────────────────────────────────────────────────

HomaMessage::HomaMessage(TimerEvents &timers, const HomaSettings &settings, Time timeout, Flow &flow, HomaSink &sink)
    : Message(timers, flow), settings_(settings), timeout_(timeout), flow_(flow), total_(flow.connection.total()),
      unscheduled_(std::min(total_, settings.round_trip_packets)), may_send_(unscheduled_),
      level_(static_cast<std::uint8_t>(settings.levels - 1)), sink_(sink), granted_(unscheduled_)
{
	flow.host_queue = &queued_;
}

HomaMessage::~HomaMessage()
{
	sink_.forget(*this);
}

void HomaMessage::start()
{
	send_granted();
	source_timer.set(flow_.connection.now() + timeout_);
}

// The host's own port serves the message with the fewest packets left. What one grant releases counts as one.
void HomaMessage::send_granted()
{
	const std::uint32_t left = total_ - next_;

	while (next_ < may_send_) {
		flow_.connection.send_piece(next_, tag_of(next_), left, false);
		next_++;
	}
}

std::uint8_t HomaMessage::tag_of(std::uint32_t number) const
{
	const auto &cutoffs = settings_.cutoffs_bytes;

	if (number >= unscheduled_)
		return tag_of_level(level_);
	return tag_of_level(static_cast<std::size_t>(
		std::lower_bound(cutoffs.begin(), cutoffs.end(), flow_.spec.bytes) - cutoffs.begin()));
}

void HomaMessage::on_answer(const Packet &packet)
{
	is_known_ = true;
	may_send_ = std::max(may_send_, packet.next_expected);
	if (packet.duplicate) {
		for (std::uint32_t number = packet.number; number < std::min(packet.next_expected, next_); number++)
			if (!queued_.holds(number))
				flow_.connection.send_piece(number, tag_of(number), total_ - number, true);
	} else {
		level_ = static_cast<std::uint8_t>(packet.number);
	}
	send_granted();
}

// As long as the sink has not answered, all packets may have been lost. What waits in the host is no reason.
void HomaMessage::on_source_timer()
{
	if (is_known_)
		return;
	if (!queued_.packets()) {
		flow_.connection.count_timeout();
		flow_.connection.send_header(PacketKind::MessageQuery);
	}
	source_timer.set(flow_.connection.now() + timeout_);
}

void HomaMessage::on_query(const Packet &)
{
	if (!sink_timer.is_set())
		ask_again();
}

void HomaMessage::on_arrival(const Packet &)
{
	arrived_++;
	if (granted_ < total_)
		sink_.on_arrival(*this, settings_);
	if (arrived_ < granted_)
		sink_timer.set(flow_.connection.now() + timeout_);
	else
		sink_timer.clear();
}

bool HomaMessage::grant(std::uint32_t ahead, std::uint8_t level)
{
	std::uint32_t until = std::min(arrived_ + ahead, total_);

	if (until > granted_) {
		granted_ = until;
		flow_.receiver.answer(level, granted_, false);
		sink_timer.set(flow_.connection.now() + timeout_);
	}
	return granted_ == total_;
}

// Granted packets have not come (RESEND, section 3.7).
void HomaMessage::on_sink_timer()
{
	ask_again();
}

void HomaMessage::ask_again()
{
	flow_.receiver.answer(flow_.receiver.next_expected(), std::min(flow_.receiver.end_of_gap(), granted_), true);
	sink_timer.set(flow_.connection.now() + timeout_);
}

std::unique_ptr<Message> Homa::open(TimerEvents &timers, Flow &flow)
{
	return std::make_unique<HomaMessage>(timers, settings_, timeout_, flow, sinks_[flow.spec.sink]);
}

} // namespace sluice
