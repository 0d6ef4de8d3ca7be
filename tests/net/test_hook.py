# SPDX-License-Identifier: Apache-2.0
"""Agents attach the setsockopt hook and take it over. They report what the kernel lacks and run without it."""

import sys
from typing import Any

import pytest

from sluice.dataplane import congestion
from sluice.dataplane.build import KERNEL_BTF
from sluice.dataplane.sockopt import answers, cgroup_root
from sluice.policy.controls import fallback_of
from sluice.policy.errors import EnvironmentLacking
from sluice.runtime import command
from sluice.runtime.process import stop
from sluice.runtime.wait import wait_until
from tests.unit.hostagent.agents import Agents


def _lacking() -> str:
    try:
        cgroup_root()
    except EnvironmentLacking as lacking:
        return str(lacking)
    return ""


pytestmark = pytest.mark.skipif(bool(_lacking()), reason=_lacking())

DECLARE = (
    "import socket, struct; s = socket.socket();"
    's.setsockopt(0x5C1C, 1, struct.pack("=IIQqQII16s", 1, 0, 7, 0, 0, 0, 0, b""));'
    "print(struct.unpack_from('=Q', s.getsockopt(0x5C1C, 1, 56), 8)[0])"
)


def can_declare(agents: Agents) -> bool:
    """Return whether an unprivileged program on h1 can declare a flow."""
    try:
        argv = ["setpriv", "--reuid", "65534", "--clear-groups", "/usr/bin/python3", "-c", DECLARE]
        return agents.cable.exec("h1", argv).strip() == "7"
    except command.CommandFailed:
        return False


def require_alone() -> None:
    """Skip the test if another agent provides the hook or a control, because then they cannot be missing."""
    others = [name for name in congestion.ours() if name in congestion.available()]
    if answers() or others:
        pytest.skip("an agent on this machine provides the hook or a congestion control")


def test_agents_attach_the_hook_and_the_survivor_takes_it_over() -> None:
    with Agents() as agents:
        agents.start()
        assert all(agents.status(host)["hook"] for host in ("h1", "h2"))
        assert can_declare(agents)
        agents.kill("h1")
        wait_until(lambda: can_declare(agents), "the other agent provides the hook")
        agents.processes["h2"].terminate()
        assert agents.processes["h2"].wait(300) == 0


# -- machines that lack a feature: a mount namespace hides it

HIDE = {
    "btf": f"mount -t tmpfs none {KERNEL_BTF.parent}",
    "cgroup": "umount -l {cgroup}",
}


def without(what: str, argv: list[str]) -> list[str]:
    """Return the command with one feature hidden."""
    hide = HIDE[what].format(cgroup=cgroup_root())
    return ["unshare", "--mount", "sh", "-c", f'{hide} && exec "$@"', "sh", *argv]


def status_without(agents: Agents, what: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "sluice", "agent", "--name", "h1", "--interface", "h1-eth0"]
    argv += ["--run-dir", str(agents.folder / "h1"), "--web", agents.web.target]
    process = agents.cable.spawn("h1", without(what, argv), agents.folder / "h1.log")
    wait_until(lambda: any(beat["policy_version"] for beat in agents.web.heartbeats), "the agent to report")
    wait_until(lambda: process.poll() is None, "the agent continues")
    status = agents.web.heartbeats[-1]
    stop(process)
    return status


@pytest.mark.timing
@pytest.mark.parametrize("control", ["sluice_dctcp", "sluice_datcp"])
def test_agent__without_btf_uses_the_kernels_control_and_marks_the_run(control: str) -> None:
    require_alone()
    with Agents(control=control, scheme="d2tcp") as agents:
        status = status_without(agents, "btf")
    assert status["fallback"]
    assert "CONFIG_DEBUG_INFO_BTF" in status["fallback_reason"]
    assert status["congestion_control"] in (fallback_of(control), "cubic")
    assert not status["hook"]
    assert "CONFIG_DEBUG_INFO_BTF" in status["hook_problem"]
    assert not status["tagger"]


@pytest.mark.timing
def test_agent__without_cgroups_does_all_but_the_hook() -> None:
    require_alone()
    with Agents() as agents:
        status = status_without(agents, "cgroup")
        assert not can_declare(agents)
    assert not status["fallback"]
    assert status["congestion_control"] == "sluice_dctcp"
    assert not status["hook"]
    assert "mount -t cgroup2" in status["hook_problem"]
