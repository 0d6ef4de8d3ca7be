# SPDX-License-Identifier: Apache-2.0
"""A congestion control from one file in the kernel: its window, its rate, its parameters and its hooks."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from experiments import peers
from sluice.dataplane import build
from sluice.dataplane.congestion import ControlSettings, HostEntry, available, register_congestion_control
from sluice.dataplane.port_settings import PortSettings
from sluice.policy.controls import Control
from sluice.runtime import control_files
from sluice.runtime.wait import wait_until
from tests.kernel.bottleneck import BUFFER_BYTES, K_BYTES, PORT, RATE_BPS, Dumbbell, Flows, bottleneck, flows
from tests.kernel.lab import Namespace, tcp_info

pytestmark = pytest.mark.usefixtures("no_plugin_stays")

NAME = f"t{os.getpid() % 10**7:07}"
"""The kernel has one list of controls, so no other process has this name."""
TEXT = f"""\
#define SL_CONTROL {NAME}
#define SL_ECHO SL_ECHO_NONE
#define SL_PARAMETERS(P)                                                  \\
	P(window_milli, 7000, "Window, in thousandths of a packet.")       \\
	P(loss_milli, 5000, "Window after a loss.")                        \\
	P(timeout_milli, 3000, "Window after a timeout.")                  \\
	P(bytes_per_s, 0, "Pacing rate.")
#define SL_STATE struct hurt
#include "hooks.h"

struct hurt {{
	sl_u32 losses, timeouts;
}};
static void on_ack(struct sl_sender *s, const struct sl_ack *ack)
{{
	const struct sl_parameters *p = s->parameters;
	sl_u64 milli = s->own->timeouts ? p->timeout_milli : s->own->losses ? p->loss_milli : p->window_milli;

	s->cwnd_q16 = SL_Q16_ONE * milli / 1000;
	s->pacing_bytes_per_s = p->bytes_per_s;
}}
#define SL_ON_ACK on_ack
static void on_loss(struct sl_sender *s)
{{
	s->own->losses++;
}}
#define SL_ON_LOSS on_loss
static void on_timeout(struct sl_sender *s)
{{
	s->own->timeouts++;
}}
#define SL_ON_TIMEOUT on_timeout
"""


class Info(NamedTuple):
    """What struct tcp_info says of a sender."""

    mss_bytes: int
    unacked: int
    rtt_us: int
    cwnd: int
    rate_bytes_per_s: int


def info(sender: socket.socket) -> Info:
    numbers = [tcp_info(sender, place) for place in (16, 24, 68, 80)]
    return Info._make([*numbers, tcp_info(sender, 104, "=Q")])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the compiled programs, for all tests."""
    return tmp_path_factory.mktemp("control")


@pytest.fixture
def control(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Control:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    path = folder / "control.h"
    path.write_text(TEXT)
    return control_files.read(path)


@pytest.fixture
def bell(control: Control, namespaces: list[Namespace]) -> Iterator[Dumbbell]:
    with (
        register_congestion_control(control.kernel_name),
        bottleneck(namespaces, control.kernel_name) as made,
    ):
        yield made


def settings(control: Control, **values: int) -> ControlSettings:
    numbers = tuple(values.get(p.name, p.default) for p in control.parameters)
    return ControlSettings(parameters_of=control.kernel_name, parameters=numbers)


def run_until(one: Flows, condition: object, what: str) -> None:
    """Send until the condition holds."""
    assert callable(condition)

    def holds() -> bool:
        one.run(0.05)
        return bool(condition())

    wait_until(holds, what)


def test_window_rate_and_parameters_are_those_of_the_file_and_of_the_hosts_policy(
    bell: Dumbbell, control: Control
) -> None:
    with bell.a, HostEntry() as host:
        one = flows(bell, 1)
        [sender] = one.senders
        run_until(one, lambda: info(sender).cwnd == 7, "the window of the file")
        assert info(sender).unacked <= 7
        host.set(settings(control, window_milli=11_000, bytes_per_s=2_000_000))
        run_until(one, lambda: info(sender).cwnd == 11, "the window of the policy")
        assert info(sender).rate_bytes_per_s == pytest.approx(2_000_000, rel=0.001)
        host.set(settings(control, window_milli=250))
        run_until(one, lambda: info(sender).cwnd == 1, "a window below one packet")
        slow = info(sender)
        assert slow.rate_bytes_per_s == pytest.approx(slow.mss_bytes * 10**6 / (4 * slow.rtt_us), rel=0.01)
        host.set(ControlSettings(parameters_of="sluice_other", parameters=(9000,)))
        run_until(one, lambda: info(sender).cwnd == 7, "the defaults, because the policy has another control")
        one.close()


def test_a_loss_and_a_timeout_have_hooks(bell: Dumbbell, control: Control) -> None:
    with ExitStack() as inside:
        host = inside.enter_context(HostEntry())
        with bell.a:
            host.set(settings(control, window_milli=300_000))
        one = flows(bell, 1)
        [sender] = one.senders
        run_until(one, lambda: info(sender).cwnd == 5, "a loss, because the window is larger than the buffer")
        with bell.router:
            bell.ports.set(PORT, PortSettings(K_BYTES, 1, rate_bps=RATE_BPS))  # drops all that waits
        run_until(one, lambda: info(sender).cwnd == 1, "a timeout, at which the kernel leaves one packet")
        with bell.router:
            bell.ports.set(PORT, PortSettings(K_BYTES, BUFFER_BYTES, rate_bps=RATE_BPS))
        run_until(one, lambda: info(sender).cwnd == 3, "the hook's window")
        one.close()


@pytest.mark.parametrize("name", ["swift", "timely", "l2dct", "dcqcn"])
def test_peers_load(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's verifier accepts a control with roots, divisions and loops."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    control = control_files.read(Path(peers.__file__).with_name(f"{name}.h"))
    with register_congestion_control(control.kernel_name):
        assert control.kernel_name in available()


def test_another_agent_finds_the_compiled_program(control: Control) -> None:
    first = build.control_object(control)
    made_ns = first.stat().st_mtime_ns
    assert build.control_object(control) == first
    assert first.stat().st_mtime_ns == made_ns
    assert first.name.startswith(f"{NAME}-")
