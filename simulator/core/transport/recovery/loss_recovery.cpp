// SPDX-License-Identifier: Apache-2.0
// What a sender makes of ACKs and of silence: which packets have arrived, which are lost or were wrongly taken for that, when it probes
// and when it starts anew. How far to reduce is window.cpp's.
#include <algorithm>

#include "transport/flow.hpp"
#include "transport/connection.hpp"

namespace sluice
{

// Which packets the ACK says have arrived; how many of them are news.
std::uint32_t Sender::deliver(const Packet &ack)
{
	if (rack_ && !reordering_ && was_overtaken(ack.number))
		begin_reordering();
	std::uint32_t newly = ack.number >= una_ && ack.number < next_ ? deliver_one(ack.number) : 0;

	while (una_ < ack.next_expected) {
		newly += deliver_one(una_);
		scoreboard_.set(una_, Scoreboard::Sent); // its place is free for another packet
		una_++;
	}
	highest_delivered_ = std::max({highest_delivered_, una_, newly ? ack.number + 1 : 0});
	next_to_examine_ = std::max(next_to_examine_, una_);
	next_to_resend_ = std::max(next_to_resend_, una_);
	return newly;
}

std::uint32_t Sender::deliver_one(std::uint32_t number)
{
	switch (scoreboard_.at(number)) {
	case Scoreboard::Delivered:
		return 0;
	case Scoreboard::Lost:
		lost_--;
		break;
	case Scoreboard::Sent:
	case Scoreboard::SentAgain:
		in_flight_--;
		break;
	}
	scoreboard_.set(number, Scoreboard::Delivered);
	return 1;
}

// By one that left later, and not because it left again.
bool Sender::was_overtaken(std::uint32_t number) const
{
	return number >= una_ && number + 1 < highest_delivered_ && scoreboard_.at(number) == Scoreboard::Sent;
}

// When the packets under way left is not known. Those before the one that left last of all that have arrived: no later than that one;
// the others: by now.
void Sender::begin_reordering()
{
	auto is_early = [this](std::uint32_t number) {
		return number < last_to_leave_.number && scoreboard_.at(number) == Scoreboard::Sent;
	};
	auto note = [this](std::uint32_t number, Time at) {
		Scoreboard::State state = scoreboard_.at(number);

		if (state == Scoreboard::Sent || state == Scoreboard::SentAgain)
			reordering_->on_sent({number, state == Scoreboard::SentAgain, at});
	};

	reordering_ = std::make_unique<Reordering>();
	for (std::uint32_t number = una_; number != next_; number++)
		if (is_early(number))
			note(number, last_to_leave_.left_at);
	for (std::uint32_t number = una_; number != next_; number++)
		if (!is_early(number))
			note(number, world_.now());
}

// What the ACK says of packets that were taken for lost.
void Sender::reconsider(const Packet &ack, bool advances)
{
	last_to_leave_.on_arrival(ack.number, ack.sent_at, world_.now());
	if (reordering_ && ack.duplicate)
		reordering_->on_duplicate(una_, next_);
	if (eifel_.was_needless(ack.sent_at, advances, ack.duplicate))
		undo();
}

// Nothing was lost: what is to be sent again is still under way. The window is given back unless marks had taken it.
void Sender::undo()
{
	if (state_ == State::Recovery && !reordering_)
		begin_reordering();
	for (std::uint32_t number = una_; lost_; number++) {
		if (scoreboard_.at(number) != Scoreboard::Lost)
			continue;
		scoreboard_.set(number, Scoreboard::Sent);
		in_flight_++;
		lost_--;
		if (reordering_)
			reordering_->on_sent({number, false, world_.now()});
	}
	next_to_examine_ = una_;
	if (cut_for_loss_)
		window_.undo();
	if (state_ != State::Reducing)
		state_ = State::Open;
}

// A packet is lost when one that was sent `duplicate_threshold` packets later has arrived (forward
// acknowledgement: Mathis, Mahdavi, SIGCOMM 1996, section 2), or when RACK says so.
void Sender::detect_losses(const Packet &ack)
{
	if (!settings_.duplicate_threshold)
		return;
	if (reordering_)
		return lose_overdue();
	std::uint32_t before = highest_delivered_ > settings_.duplicate_threshold
				       ? highest_delivered_ - settings_.duplicate_threshold
				       : 0;

	if (rack_) {
		rack_->on_arrival(ack.sent_at, [this](std::uint32_t number) {
			if (number >= una_ && scoreboard_.at(number) == Scoreboard::SentAgain)
				lose(number);
		});
		before = std::max(before, rack_->lost_before());
	}
	for (; next_to_examine_ < before; next_to_examine_++)
		if (scoreboard_.at(next_to_examine_) == Scoreboard::Sent)
			lose(next_to_examine_);
}

void Sender::lose_overdue()
{
	auto is_missing = [this](const Reordering::Sent &sent) {
		return sent.number >= una_ &&
		       scoreboard_.at(sent.number) == (sent.again ? Scoreboard::SentAgain : Scoreboard::Sent);
	};

	reordering_->examine(last_to_leave_, round_trip_, world_.now(), is_missing,
			     [this](std::uint32_t number) { lose(number); });
}

// Or did until now.
bool Sender::awaits_overtaken() const
{
	return reordering_ && (awaited_ == Awaited::Overdue || reordering_->due() != NEVER);
}

void Sender::lose_all()
{
	for (std::uint32_t number = una_; number != next_; number++) {
		Scoreboard::State state = scoreboard_.at(number);

		if (state == Scoreboard::Sent || state == Scoreboard::SentAgain)
			lose(number);
	}
	if (rack_)
		rack_->forget();
	if (reordering_)
		reordering_->forget();
	next_to_resend_ = una_;
	next_to_examine_ = next_;
}

void Sender::lose(std::uint32_t number)
{
	scoreboard_.set(number, Scoreboard::Lost);
	next_to_resend_ = std::min(next_to_resend_, number);
	in_flight_--;
	lost_++;
}

// In the state that the ACK leaves the sender in.
void Sender::react(bool marked)
{
	if (lost_ && state_ != State::Recovery && state_ != State::Loss) {
		window_.begin_recovery(state_ == State::Reducing);
		if (state_ != State::Reducing) {
			high_ = next_;
			cut_for_loss_ = !marked;
		}
		eifel_.begin();
		state_ = State::Recovery;
	} else if (marked && state_ == State::Open && settings_.echo != Echo::None) {
		window_.begin_cut();
		high_ = next_;
		announce_reduction_ = true;
		cut_for_loss_ = false;
		state_ = State::Reducing;
	}
}

// A reduction lasts until everything that was under way at its beginning has been acknowledged; one for marks, a packet longer,
// so that the receiver has heard of it. True: the window has reached its target with this ACK.
bool Sender::settle_state()
{
	bool over = state_ == State::Reducing ? una_ > high_ : una_ >= high_;

	if (state_ == State::Open || !over)
		return false;
	bool reduced = state_ != State::Loss;

	if (reduced)
		window_.end_reduction();
	if (reordering_ && state_ != State::Reducing)
		reordering_->on_recovery_over();
	state_ = State::Open;
	return reduced;
}

void Sender::retransmit_lost()
{
	while (scoreboard_.at(next_to_resend_) != Scoreboard::Lost)
		next_to_resend_++;
	lost_--;
	retransmissions_++;
	send(next_to_resend_++, true);
}

void Sender::restart_timer()
{
	timer_.clear();
	if (in_flight_ || lost_)
		arm_timer();
}

void Sender::arm_timer()
{
	if (timer_.is_set())
		return;
	Time due = world_.now() + round_trip_.timeout();

	awaited_ = Awaited::Timeout;
	if (may_probe()) {
		awaited_ = Awaited::Probe;
		due = std::min(due, world_.now() + Rack::probe_after(round_trip_, in_flight_, settings_.rto_min));
	}
	if (reordering_ && reordering_->due() < due) {
		awaited_ = Awaited::Overdue;
		due = reordering_->due();
	}
	timer_.set(due);
}

bool Sender::may_probe() const
{
	return rack_ && connected_ && in_flight_ && round_trip_.smoothed() && una_ >= rack_->probed_before &&
	       (state_ == State::Open || state_ == State::Reducing);
}

// A new packet, whatever the window is, or the last one again.
void Sender::probe()
{
	std::uint32_t number = next_;

	if (next_ == total_ || next_ - una_ >= settings_.max_window) {
		do
			number--;
		while (scoreboard_.at(number) == Scoreboard::Delivered);
		in_flight_--;
		retransmissions_++;
	}
	rack_->probed_before = std::max(next_, number + 1);
	if (number == next_ && !reordering_)
		rack_->on_sent(number, next_, world_.now());
	send(number, number < next_);
}

// Of a timeout: the threshold of slow start falls once for what was under way, however often it has to be sent again (RFC 5681,
// section 3.1), as in the kernel's tcp_enter_loss.
bool Sender::is_new_congestion() const
{
	return state_ == State::Open || una_ >= high_ || (state_ == State::Loss && una_ != una_at_timeout_);
}

void Sender::on_timer()
{
	if (!timer_.on_event())
		return;
	if (awaited_ == Awaited::Timeout)
		on_timeout();
	else if (awaited_ == Awaited::Overdue)
		on_overdue();
	else if (may_probe())
		probe();
	else
		arm_timer();
}

// What was overtaken has not come.
void Sender::on_overdue()
{
	lose_overdue();
	react(false);
	if (state_ == State::Recovery)
		window_.reduce(in_flight_, 1);
	send_allowed();
	arm_timer();
}

void Sender::on_timeout()
{
	timeouts_++;
	round_trip_.back_off();
	if (!connected_) {
		send_bare();
		return;
	}
	lose_all();
	if (is_new_congestion()) {
		cut_for_loss_ = true;
		eifel_.begin();
	}
	window_.after_timeout(is_new_congestion(), state_ == State::Reducing);
	una_at_timeout_ = una_;
	high_ = next_;
	state_ = State::Loss;
	timeouts_in_a_row_++;
	if (is_starved())
		send_bare();
	else
		send_allowed();
}

// pFabric (SIGCOMM 2013, section 4.2): after five timeouts in a row a flow sends nothing but a header at each, until one is
// answered; others' queues are spared its packets meanwhile.
bool Sender::is_starved() const
{
	return settings_.control == Control::Pfabric && timeouts_in_a_row_ >= 5;
}

void Sender::answer_of_probe()
{
	if (!is_starved())
		return;
	timeouts_in_a_row_ = 0;
	timer_.clear();
	send_allowed();
}

} // namespace sluice
