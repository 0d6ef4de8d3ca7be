// SPDX-License-Identifier: Apache-2.0
#include "transport/recovery/rack_tlp.hpp"

#include <algorithm>

#include "transport/timeout/ticks.hpp"

namespace sluice
{

void RackTlp::on_sent(std::uint32_t number, bool again, Time now)
{
	if (again) {
		if (!reordering_)
			rack_.on_sent(number, board_.next(), now);
		eifel_.on_resent(now);
	}
	if (reordering_)
		reordering_->on_sent({number, again, now});
}

Finding RackTlp::examine_losses(const Packet &ack, Delivery delivery, bool recovers, Time now)
{
	if (delivery.was_overtaken && !reordering_)
		begin_reordering(now);
	last_to_leave_.on_arrival(ack.number, ack.sent_at, now);
	if (reordering_ && ack.duplicate)
		reordering_->on_duplicate(board_.una(), board_.next());
	bool waits = settings_.recovery.undoes_late && recovers && board_.sent_again();
	Finding finding = eifel_.judge(ack.sent_at, delivery.advances, ack.duplicate, waits);

	if (finding == Finding::Needless)
		restore_lost(recovers, now);
	return finding;
}

// The times at which the packets in flight left are not known. A packet that was sent before the
// last one to leave among the arrived left no later than that one. For each other packet the time
// is at most now.
void RackTlp::begin_reordering(Time now)
{
	reordering_ = std::make_unique<Reordering>();
	watches_new_packets_ = true;
	note_under_way(true, last_to_leave_.left_at);
	note_under_way(false, now);
}

void RackTlp::note_under_way(bool early, Time left_at)
{
	for (std::uint32_t number = board_.una(); number != board_.next(); number++) {
		bool is_early = number < last_to_leave_.number && board_.at(number) == PacketState::Sent;

		if (is_early == early && board_.is_under_way(number))
			reordering_->on_sent({number, board_.at(number) == PacketState::SentAgain, left_at});
	}
}

void RackTlp::restore_lost(bool recovers, Time now)
{
	if (recovers && !reordering_)
		begin_reordering(now);
	board_.restore_lost([&](std::uint32_t number) {
		if (reordering_)
			reordering_->on_sent({number, false, now});
	});
	next_to_examine_ = board_.una();
}

void RackTlp::detect(const Packet &ack, Time now)
{
	if (reordering_)
		return detect_overdue(now);
	rack_.on_arrival(ack.sent_at, [&](std::uint32_t number) {
		if (number >= board_.una() && board_.at(number) == PacketState::SentAgain)
			board_.lose(number);
	});
	lose_once_sent_before(std::max(passed(), rack_.lost_before()));
}

void RackTlp::detect_overdue(Time now)
{
	auto is_missing = [&](const Reordering::Sent &sent) {
		return sent.number >= board_.una() &&
		       board_.at(sent.number) == (sent.again ? PacketState::SentAgain : PacketState::Sent);
	};

	reordering_->examine(last_to_leave_, rtt_, now, is_missing,
			     [&](std::uint32_t number) { board_.lose(number); });
}

void RackTlp::on_reaction()
{
	eifel_.begin();
}

void RackTlp::on_recovery_over()
{
	if (reordering_)
		reordering_->on_recovery_over();
}

void RackTlp::on_timeout()
{
	LossDetection::on_timeout();
	rack_.forget();
	if (reordering_)
		reordering_->forget();
}

// A probe goes two round trips after an ACK or the first packet, or in place of an earlier
// timeout. If only one packet is in flight, it waits for the longest delay of an ACK, too.
Alarm RackTlp::first_alarm(Alarm timeout, bool open, Time now) const
{
	Alarm first = timeout;

	if (may_probe(open)) {
		Time more = board_.in_flight() == 1 ? settings_.timeout.least : LEAST_TICKS * settings_.timeout.tick;
		Time due = fires_at(now, 2 * rtt_.smoothed() + more, settings_.timeout.tick);

		first = {AlarmKind::Probe, std::min(timeout.due, due)};
	}
	if (reordering_ && reordering_->due() != NEVER) {
		Time due = overdue_at(now);

		if (due < first.due)
			first = {AlarmKind::Overdue, due};
	}
	return first;
}

// Linux adds the shortest time of a timer (TCP_TIMEOUT_MIN).
Time RackTlp::overdue_at(Time now) const
{
	Time tick = settings_.timeout.tick, left = std::max<Time>(reordering_->due() - now, 0);

	return tick ? fires_at(now, left + LEAST_TICKS * tick, tick) : reordering_->due();
}

bool RackTlp::may_probe(bool open) const
{
	return board_.in_flight() && rtt_.smoothed() && board_.una() >= probed_before_ && open;
}

std::uint32_t RackTlp::probe(bool may_send_new, Time now)
{
	std::uint32_t next = board_.next(), number = may_send_new ? next : board_.take_last();

	probed_before_ = std::max(next, number + 1);
	if (number == next && !reordering_)
		rack_.on_sent(number, next, now);
	return number;
}

bool RackTlp::awaits_overtaken() const
{
	return reordering_ && reordering_->due() != NEVER;
}

} // namespace sluice
