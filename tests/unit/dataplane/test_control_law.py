# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import ModuleType


def test_window_flags__each_is_a_bit_of_its_own(laws: ModuleType) -> None:
    flags = (laws.lib.SL_WINDOW_SLOW_START, laws.lib.SL_WINDOW_HAS_DEADLINE, laws.lib.SL_WINDOW_HAS_SIZE)
    assert [flag.bit_count() for flag in flags] == [1, 1, 1]
    assert len({*flags}) == len(flags)
