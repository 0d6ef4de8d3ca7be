# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.policy.figures.metrics import cdf


@given(st.lists(st.floats(1, 1e9), min_size=1, max_size=2000, unique=True))
def test_cdf__every_point_is_on_the_distribution(values: list[float]) -> None:
    x, share = cdf(np.array(values), 240)
    assert share == pytest.approx([np.mean(np.array(values) <= value) for value in x])
    assert share[-1] == 1
    assert x[-1] == max(values)
    assert (np.diff(share) > 0).all()
    assert (np.diff(x) > 0).all()
