# SPDX-License-Identifier: Apache-2.0
"""The settings of a host's windows, as its agent writes them (dataplane/congestion.py)."""

import contextlib
from dataclasses import replace
from pathlib import Path

from sluice.dataplane.congestion import DEFAULT_CONTROL, ControlSettings, HostEntry
from sluice.hostagent.control import HostControl
from tests.kernel.lab import Namespace

WANTED = ControlSettings(8, forgets_late=True), ControlSettings(16)
BEFORE = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
"""The machine's default, which new namespaces inherit."""


def test_each_namespace_has_its_own_settings_until_its_agent_ends(namespaces: list[Namespace]) -> None:
    """And agents write the control that the host had before, for connections without ECN."""
    hosts = Namespace(), Namespace()
    namespaces += hosts
    with contextlib.ExitStack() as opened:
        seen, agents = [], []
        for place, wanted in zip(hosts, WANTED, strict=True):
            with place:
                seen.append(opened.enter_context(HostEntry()))
                agents.append(HostControl())
                agents[-1].use("sluice_ucp", wanted)
        assert [entry.settings for entry in seen] == [replace(one, without_ecn=BEFORE) for one in WANTED]
        for place, agent in zip(hosts, agents, strict=True):
            with place:
                agent.restore()
        assert [entry.settings for entry in seen] == [DEFAULT_CONTROL] * 2


def test_what_a_killed_agent_has_left_does_not_hold_for_the_next_one(namespaces: list[Namespace]) -> None:
    place = Namespace()
    namespaces.append(place)
    with place, HostEntry() as entry:
        entry.set(WANTED[0])
        agent = HostControl()
        agent.use("sluice_dctcp")
        assert entry.settings == replace(DEFAULT_CONTROL, without_ecn=BEFORE)
        agent.restore()
