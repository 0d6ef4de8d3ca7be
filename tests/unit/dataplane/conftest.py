# SPDX-License-Identifier: Apache-2.0
from types import ModuleType

import pytest

from sluice.dataplane import laws_cffi


@pytest.fixture(scope="session")
def laws() -> ModuleType:
    """The compiled laws: attributes `ffi` and `lib`."""
    return laws_cffi.load()
