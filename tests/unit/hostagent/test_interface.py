# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sluice.hostagent.link import mac_address


def test_mac_address__of_an_interface() -> None:
    assert mac_address("no-such-if") == ""
    assert mac_address("lo") == "", "it is no Ethernet"
