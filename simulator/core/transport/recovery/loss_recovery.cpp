// SPDX-License-Identifier: Apache-2.0
#include "transport/recovery/loss_recovery.hpp"

#include "transport/recovery/rack_tlp.hpp"

namespace sluice
{

namespace
{

std::unique_ptr<LossDetection> make_detection(const TransportSettings &settings, Scoreboard &board,
					      const RttEstimator &rtt)
{
	if (settings.recovery.uses_rack())
		return std::make_unique<RackTlp>(settings, board, rtt);
	return std::make_unique<LossDetection>(settings, board, rtt);
}

} // namespace

LossRecovery::LossRecovery(const TransportSettings &settings, Window &window, const RttEstimator &rtt)
    : settings_(settings), window_(window), detection_(make_detection(settings, board_, rtt)), rtt_(rtt),
      takes_marks_(settings.ack.echo != Echo::None && !window.is_owned())
{
}

LossRecovery::Outcome LossRecovery::assess(const Packet &ack, Delivery delivery, Time now)
{
	Finding finding = detection_->examine_losses(ack, delivery, state_ == State::Recovery, now);

	if (finding == Finding::Needless)
		undo();
	bool reached_target = settle();

	if (finding == Finding::Late && state_ == State::Recovery)
		return {.reached_target = false, .cut_for_marks = false, .spares_lost = true};
	detection_->detect(ack, now);
	bool counts = delivery.advances || !settings_.tcp.changes_by_advance;

	return {.reached_target = reached_target,
		.cut_for_marks = react(ack.ce && counts, now),
		.spares_lost = false};
}

// The window is given back unless marks had reduced it.
void LossRecovery::undo()
{
	if (cut_for_loss_)
		window_.undo();
	if (state_ != State::Reducing)
		state_ = State::Open;
}

// A reaction lasts until everything that was in flight at its beginning is acknowledged. A
// reaction to marks lasts a packet longer, so that the receiver gets the CWR flag. True: the
// window has reached its target with this ACK.
bool LossRecovery::settle()
{
	bool over = state_ == State::Reducing ? board_.una() > high_ : board_.una() >= high_;

	if (state_ == State::Open || !over)
		return false;
	bool reduced = is_reducing();

	if (reduced)
		window_.end_reduction();
	if (state_ != State::Reducing)
		detection_->on_recovery_over();
	state_ = State::Open;
	return reduced;
}

// Begins a reaction if one is due. True: it is a reduction for marks.
bool LossRecovery::begin_reaction(bool marked, Time now)
{
	if (board_.lost() && is_open()) {
		window_.begin_recovery(state_ == State::Reducing, rtt_, now);
		window_.trace(TraceEvent::LossCut);
		if (state_ != State::Reducing) {
			high_ = board_.next();
			cut_for_loss_ = !marked;
		}
		detection_->on_reaction();
		state_ = State::Recovery;
	} else if (marked && state_ == State::Open && takes_marks_) {
		window_.begin_cut();
		window_.trace(TraceEvent::MarkCut);
		high_ = board_.next();
		cut_for_loss_ = false;
		state_ = State::Reducing;
		return true;
	}
	return false;
}

void LossRecovery::on_overdue(Time now)
{
	detection_->detect_overdue(now);
	react(false, now);
	if (state_ == State::Recovery && !window_.is_owned())
		window_.reduce(board_.in_flight(), 1);
}

void LossRecovery::on_timeout(Time now)
{
	bool is_new = is_new_congestion();

	board_.lose_all();
	detection_->on_timeout();
	if (is_new) {
		cut_for_loss_ = true;
		detection_->on_reaction();
	}
	window_.after_timeout(is_new, state_ == State::Reducing, rtt_, now);
	window_.trace(TraceEvent::Timeout);
	una_at_timeout_ = board_.una();
	high_ = board_.next();
	state_ = State::Loss;
}

// Slow start's threshold falls once for all packets in flight, also if they are
// retransmitted several times (RFC 5681, section 3.1; the kernel's tcp_enter_loss).
bool LossRecovery::is_new_congestion() const
{
	return state_ == State::Open || board_.una() >= high_ ||
	       (state_ == State::Loss && board_.una() != una_at_timeout_);
}

} // namespace sluice
