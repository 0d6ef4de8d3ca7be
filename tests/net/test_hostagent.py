# SPDX-License-Identifier: Apache-2.0
"""Agents on real kernel TCP: two network namespaces on one cable."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sluice.hostagent.wire import PORT
from sluice.policy.tags import attained_tag
from sluice.policy.units import MSS_BYTES
from sluice.policy.wire.records import FINISHED, UNFINISHED
from sluice.runs.services import BackgroundLoad, Load
from sluice.runtime.wait import wait_until
from tests.kernel.capture import FIN, Capture
from tests.kit.flows import flow
from tests.kit.small_disk import SmallDisk
from tests.unit.hostagent.agents import ADDRESSES, Agents


def counter(agents: Agents, host: str, name: str) -> int:
    """Return a kernel counter of the host since its namespace was made."""
    text = agents.cable.exec(host, ["nstat", "-a", "-s", "-z", name])
    return int(text.split(name)[1].split()[0])


def fins(capture: Capture) -> dict[int, int]:
    """Return the tag of each connection's FIN, by source port. A late ACK makes TCP repeat one."""
    return {packet.source_port: packet.dscp for packet in capture.packets() if packet.flags & FIN}


def test_every_flow_finishes_and_sends_exactly_one_fin_and_the_receiver_none() -> None:
    sizes = [64, 10_000, 100_000, 1_000_000]
    with (
        Agents(rate="1gbit") as agents,
        Capture(agents.cable.hosts["h1"], "h1-eth0") as at_sender,
        Capture(agents.cable.hosts["h2"], "h2-eth0") as at_receiver,
    ):
        agents.web.settings["host"]["idle_gap_ns"] = 3600 * 10**9  # a pause of the sender begins no flow
        agents.start(*(flow(i, 0.05 * i, sizes[i % 4]) for i in range(40)))
        records = agents.records(40)
        assert {record.status for record in records.values()} == {FINISHED}
        assert min(record.fct_us or 0.0 for record in records.values()) > 20
        assert agents.status("h2")["user_space_mean_us"] > 0
        tags = list(fins(at_receiver).values())
        assert fins(at_sender) == {}
    assert len(tags) == 40
    for size in sizes:  # the FIN is in the last segment or in the next one
        possible = {attained_tag(max(0, size - MSS_BYTES)), attained_tag(size), attained_tag(size + 1)}
        possible |= set(range(min(possible), max(possible) + 1))
        assert sum(tag in possible for tag in tags) >= 10, f"{size} bytes: {sorted(tags)}"


def test_persistent_connections_send_no_fin() -> None:
    with (
        Agents() as agents,
        Capture(agents.cable.hosts["h1"], "h1-eth0") as at_sender,
        Capture(agents.cable.hosts["h2"], "h2-eth0") as at_receiver,
    ):
        agents.start(*(flow(i, 0.02 * i) for i in range(20)), connections="persistent")
        assert {record.status for record in agents.records(20).values()} == {FINISHED}
        for process in agents.processes.values():
            process.terminate()
        assert [process.wait(300) for process in agents.processes.values()] == [0, 0]
        assert (fins(at_sender), fins(at_receiver)) == ({}, {})


BOTTLENECK = """\
ip link add ifb0 type ifb
ip link set ifb0 up
tc qdisc add dev ifb0 root handle 1: htb default 1
tc class add dev ifb0 parent 1: classid 1:1 htb rate 20mbit
tc qdisc add dev ifb0 parent 1:1 pfifo limit 10
tc qdisc add dev h2-eth0 clsact
tc filter add dev h2-eth0 ingress protocol all u32 match u32 0 0 action mirred egress redirect dev ifb0"""
"""On the way into h2: a slow link with a buffer of ten packets, which slow start overruns.

A queue on h1 would limit TCP by itself.
"""


def test_retransmissions_are_those_that_the_kernel_counts() -> None:
    with Agents() as agents:
        for line in BOTTLENECK.splitlines():
            agents.cable.exec("h2", line.split())
        agents.start(*(flow(i, 0.3 * i, 500_000) for i in range(6)))
        records = agents.records(6)
        assert {record.status for record in records.values()} == {FINISHED}
        total = sum(record.retransmissions or 0 for record in records.values())
        assert total > 0
        assert total == counter(agents, "h1", "TcpRetransSegs")
        wait_until(
            lambda: agents.status("h1").get("retransmissions") == total, "the heartbeat has the same count"
        )
        assert agents.status("h1")["timeouts"] == counter(agents, "h1", "TcpExtTCPTimeouts")


def test_the_congestion_control_is_in_force_at_both_ends_with_ecn() -> None:
    """Meanwhile, the traffic has real-time priority and the reporting has not. iperf has the control, too."""
    with Agents(rate="50mbit") as agents:
        agents.start(flow(1, 0.0, 20_000_000_000), arguments=("--grace", "3600"))
        for host in ("h1", "h2"):
            established = wait_until(
                partial(sockets, agents, host, f"( dport = {PORT} or sport = {PORT} )"), f"the flow on {host}"
            )
            assert "sluice_dctcp" in established
            assert re.search(r"\becn\b", established), "ECN was refused in the handshake"
            default = agents.cable.exec(host, ["cat", "/proc/sys/net/ipv4/tcp_congestion_control"])
            assert default.strip() == "sluice_dctcp"
            assert agents.status(host)["tagger"]
            assert not agents.status(host)["fallback"]
        wait_until(lambda: agents.status("h1").get("realtime"), "real-time priority")
        policies = scheduling(agents.processes["h1"].pid)
        assert policies.pop(agents.processes["h1"].pid) == os.SCHED_RR
        assert set(policies.values()) == {os.SCHED_OTHER}

        def spawn(host: str, argv: Sequence[str], log_file: Path) -> subprocess.Popen[bytes]:
            return agents.cable.spawn(host, argv, log_file)

        load = Load("h1", "h2", ADDRESSES["h2"], "sluice_dctcp", rate_bps=1_000_000)
        with BackgroundLoad(spawn, load, agents.folder / "background") as background:
            wait_until(lambda: len(background.intervals()) >= 2, "two seconds of reports")
            for host in ("h1", "h2"):
                assert "sluice_dctcp" in sockets(agents, host, "( dport = 5100 or sport = 5100 )")
            assert background.running()
            wait_until(lambda: background.rate_bps(), "bytes arrive")
        assert not background.running()
        background.stop()
        agents.processes["h1"].terminate()
        record = wait_until(lambda: agents.web.records.get("run/1"), "the flow's record")
        assert (record.status, record.reason) == (UNFINISHED, "agent stopped")
        assert record.congestion_control == "sluice_dctcp"


def sockets(agents: Agents, host: str, *choice: str) -> str:
    """Return what ss shows of the host's connections."""
    return agents.cable.exec(host, ["ss", "-tinoH", "state", "established", *choice])


def scheduling(pid: int) -> dict[int, int]:
    """Return the scheduling policy of each thread of a process."""
    return {
        int(task.name): os.sched_getscheduler(int(task.name)) & ~os.SCHED_RESET_ON_FORK
        for task in Path(f"/proc/{pid}/task").iterdir()
    }


def test_new_connections_follow_a_new_policy() -> None:
    with Agents() as agents:
        agents.start(flow(1, 0.0), flow(2, 6.0), flow(3, 6.1))
        agents.records(1)
        agents.set_settings(2, "cubic", "tcp")
        wait_until(lambda: agents.status("h1").get("policy_version") == 2, "h1 has the policy")
        wait_until(lambda: agents.status("h2").get("policy_version") == 2, "h2 has the policy")
        records = agents.records(3)
        by_flow = [(r.congestion_control, r.scheme) for _, r in sorted(records.items())]
        assert by_flow == [("sluice_dctcp", "dctcp"), ("cubic", "tcp"), ("cubic", "tcp")]


def egress_filters(agents: Agents, host: str) -> int:
    text = agents.cable.exec(host, ["tc", "filter", "show", "dev", f"{host}-eth0", "egress"])
    return len(re.findall(r"\bhandle 0x[0-9a-f]+ sluice_tag", text))


def test_killed_in_the_middle__every_flow_has_one_record() -> None:
    flows = [flow(i, 0.03 * i, 200_000) for i in range(400)]
    with Agents(rate="200mbit") as agents:
        agents.start(*flows)
        agents.records(50)
        agents.kill("h1")
        assert egress_filters(agents, "h1") == 1, "a killed agent leaves its filter"
        agents.start_agent("h1")
        wait_until(lambda: agents.status("h1"), "the new agent reports")
        reported_at = time.time()
        records = agents.records(400)
        assert egress_filters(agents, "h1") == 1, "replaced, not doubled"
        reasons = {record.reason for record in records.values()}
        assert set(records) == {f.id for f in flows}
        assert reasons <= {"", "agent restarted", "agent was down at the start time"}
        late = [r for r in records.values() if r.started_at > reported_at]
        assert {r.status for r in late} == {FINISHED}, "flows after the restart run normally"
        assert sum(r.status == FINISHED for r in records.values()) > 100
    # Records that are delivered twice are equal, so the fake web process keeps the first.


def test_the_receiver_is_killed__its_flows_are_recorded_and_later_ones_run() -> None:
    with Agents(rate="20mbit") as agents:
        agents.start(flow(1, 0.0, 50_000_000), flow(2, 6.0))
        wait_until(lambda: agents.status("h1").get("flows_active") == 1, "flow 1 runs")
        agents.kill("h2")
        assert agents.records(1)["run/1"].reason == "connection reset by the receiver"
        agents.start_agent("h2")
        record = agents.records(2)["run/2"]
        assert record.status == FINISHED
        # The killed agent may have registered the control.
        assert record.congestion_control == "sluice_dctcp"


def test_sigterm__active_flows_recorded_all_delivered_nothing_left() -> None:
    with Agents(rate="20mbit") as agents:
        before = agents.cable.exec("h1", ["cat", "/proc/sys/net/ipv4/tcp_congestion_control"])
        agents.start(flow(1, 0.0), flow(2, 0.0, 50_000_000), flow(3, 60.0))
        wait_until(lambda: agents.status("h1").get("flows_finished") == 1, "flow 1 is over")
        agents.processes["h1"].terminate()
        assert agents.processes["h1"].wait(300) == 0
        records = agents.web.records
        assert {(r.id, r.status, r.reason) for r in records.values()} == {
            ("run/1", FINISHED, ""),
            ("run/2", UNFINISHED, "agent stopped"),
        }
        assert egress_filters(agents, "h1") == 0
        assert agents.cable.exec("h1", ["cat", "/proc/sys/net/ipv4/tcp_congestion_control"]) == before
        assert agents.cable.exec("h1", ["ss", "-tanH"]).strip() == ""


def test_a_wrong_interface_is_named(tmp_path: Path) -> None:
    with Agents() as agents:
        argv = [sys.executable, "-m", "sluice", "agent", "--name", "h1", "--interface", "nope"]
        argv += ["--run-dir", str(tmp_path), "--web", agents.web.target]
        child = agents.cable.spawn("h1", argv, tmp_path / "log")
        assert child.wait(300) == 2
        assert "there is no interface nope" in (tmp_path / "log").read_text()


def test_a_full_disk_ends_no_agent_and_the_records_arrive() -> None:
    """Its host's traffic goes on, and no record is lost that fits into memory."""
    with Agents() as agents:
        disk = SmallDisk(agents.folder / "h1", "256k")
        agents.prefix["h1"] = disk.prefix
        agents.start(*(flow(number, 0.02 * number) for number in range(100)))
        pid = agents.processes["h1"].pid
        disk.fill(pid)
        records = agents.records(100)
        assert {record.status for record in records.values()} == {FINISHED}
        status = wait_until(
            lambda: agents.status("h1") if agents.status("h1")["disk_problem"] else None,
            "it reports the disk",
        )
        assert "No space left on device" in status["disk_problem"]
        assert status["records_dropped"] == 0
        assert status["pid"] == pid  # the same process
        disk.make_room(pid)
