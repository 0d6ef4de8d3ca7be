# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sluice import topologies
from sluice.topologies.entering import names_of


def test_names_of__a_plain_name_is_the_ipv4_address() -> None:
    lines = names_of(topologies.build("single", hosts=2).hosts).splitlines()
    assert lines == [
        "127.0.0.1 localhost",
        "::1 localhost ip6-localhost",
        "10.0.0.1 h1",
        "fd00::1 ip6-h1",
        "10.0.0.2 h2",
        "fd00::2 ip6-h2",
    ]
