// SPDX-License-Identifier: Apache-2.0
#include "port/shared_buffer.hpp"

#include <algorithm>

#include "port/port.hpp"

namespace sluice
{

std::uint32_t SharedBuffer::add_accounts(Port *far_end, std::uint64_t headroom_bytes)
{
	auto first = static_cast<std::uint32_t>(accounts_.size());

	accounts_.resize(first + MAX_QUEUES, {.far_end = far_end, .most_headroom_bytes = headroom_bytes});
	return first;
}

bool SharedBuffer::admit(std::uint32_t number, std::uint32_t frame_bytes)
{
	Account &account = accounts_[number];

	if (has_room(account, frame_bytes)) {
		account.bytes += frame_bytes;
		used_bytes_ += frame_bytes;
		return true;
	}
	if (!pfc)
		return false;
	if (!account.is_paused)
		tell_far_end(number, true);
	if (account.headroom_bytes + frame_bytes > account.most_headroom_bytes)
		return false;
	account.headroom_bytes += frame_bytes;
	headroom_bytes_ += frame_bytes;
	return true;
}

void SharedBuffer::release(std::uint32_t number, std::uint32_t frame_bytes)
{
	Account &account = accounts_[number];
	std::uint64_t from_headroom = std::min<std::uint64_t>(account.headroom_bytes, frame_bytes);

	account.headroom_bytes -= from_headroom;
	headroom_bytes_ -= from_headroom;
	account.bytes -= frame_bytes - from_headroom;
	used_bytes_ -= frame_bytes - from_headroom;
	if (account.is_paused && !account.headroom_bytes && (!account.bytes || has_room(account, margin_bytes_)))
		tell_far_end(number, false);
}

// Whatever alpha is, the buffer holds no more than its size.
bool SharedBuffer::has_room(const Account &account, std::uint64_t more_bytes) const
{
	std::uint64_t free = bytes_ - used_bytes_;

	return more_bytes <= free && account.bytes + more_bytes <= free * alpha_q16_ >> 16;
}

void SharedBuffer::tell_far_end(std::uint32_t number, bool pause)
{
	accounts_[number].is_paused = pause;
	accounts_[number].far_end->begin_pause_frame(number % MAX_QUEUES, pause);
}

} // namespace sluice
