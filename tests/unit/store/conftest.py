# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from store.engine import open_store


@pytest.fixture
def engine(store_url):
    engine = open_store(store_url)
    yield engine
    engine.dispose()
