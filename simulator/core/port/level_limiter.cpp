// SPDX-License-Identifier: Apache-2.0
#include "port/level_limiter.hpp"

#include "port/port.hpp"

namespace sluice
{

void LevelLimiter::accept(Packet *packet)
{
	const LevelLimits &limits = port_.settings().limits;
	const unsigned number = packet->tag - SL_TAG_ATTAINED_FIRST; // of an untagged packet beyond every level

	if (number >= MAX_LIMITED_LEVELS || !limits.bytes[number])
		return port_.admit(packet);
	Level &level = levels_[number];

	begin_epoch();
	if (level.waiting.empty() && may_leave(level, limits.bytes[number], *packet)) {
		level.used_bytes += packet->frame_bytes;
		return port_.admit(packet);
	}
	if (level.waiting_bytes + packet->frame_bytes > port_.settings().buffer_bytes)
		return port_.drop(packet);
	level.waiting_bytes += packet->frame_bytes;
	level.waiting.push(packet);
	await();
}

void LevelLimiter::on_event()
{
	is_awaited_ = false;
	release();
}

void LevelLimiter::release()
{
	const LevelLimits &limits = port_.settings().limits;

	begin_epoch();
	for (unsigned number = 0; number < MAX_LIMITED_LEVELS; number++) {
		Level &level = levels_[number];
		const std::uint64_t limit_bytes = limits.bytes[number];

		while (!level.waiting.empty() &&
		       (!limit_bytes || may_leave(level, limit_bytes, *level.waiting.front()))) {
			Packet *packet = level.waiting.pop();

			level.waiting_bytes -= packet->frame_bytes;
			level.used_bytes += packet->frame_bytes;
			port_.admit(packet);
		}
		if (!level.waiting.empty())
			await();
	}
}

void LevelLimiter::begin_epoch()
{
	const Time length = port_.settings().limits.epoch;
	const Time current = length ? port_.world().now() / length : 0;

	if (current == epoch_)
		return;
	epoch_ = current;
	for (Level &level : levels_)
		level.used_bytes = 0;
}

// A packet that is longer than the limit has an epoch of its own.
bool LevelLimiter::may_leave(const Level &level, std::uint64_t limit_bytes, const Packet &packet) const
{
	return !level.used_bytes || level.used_bytes + packet.frame_bytes <= limit_bytes;
}

void LevelLimiter::await()
{
	if (is_awaited_)
		return;
	is_awaited_ = true;
	at = (epoch_ + 1) * port_.settings().limits.epoch;
	port_.world().calendar.add(this);
}

} // namespace sluice
