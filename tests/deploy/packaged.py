# SPDX-License-Identifier: Apache-2.0
"""The two racks as machines of their own, on which everything comes from the packages."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sluice.runtime.command import CommandFailed, run
from sluice.runtime.wait import patient, wait_until
from tests.deploy.racks import ADDRESSES, BRIDGES
from tests.deploy.racks import SCRIPT as TWO_RACKS
from tests.kit.pages import DOCS, ROOT, of_order

PAGE = DOCS / "deploying" / "two-racks.md"
HERE = Path(__file__).parent
PACKAGES = ROOT / "build" / "packages"
BASE = PACKAGES / "machine.tar"
WITH_SYSTEMD = PACKAGES / "systemd.tar"
CGROUPS = Path("/sys/fs/cgroup/unified")
BLOCK_S = 240.0
AT_ONCE = 3
"""Machines that run a block at the same time."""


def obstacle() -> str:
    """Return why the machines cannot run here; empty if they can."""
    if os.geteuid():
        return "machines need root"
    if missing := [tool for tool in ("ovs-vsctl", "unshare", "nsenter", "setpriv") if not shutil.which(tool)]:
        return f"machines need {', '.join(missing)}"
    if not any(line.split()[2] == "cgroup2" for line in Path("/proc/mounts").read_text().splitlines()):
        return "machines need a mounted cgroup2 hierarchy"
    if not BASE.exists() or not list(PACKAGES.glob("sluice-*.deb")):
        return "there are no packages and no base system in build/packages: make test-deploy"
    return ""


class Machines:
    """Two racks, a gateway and a hub, made by scripts without Sluice."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def up(self) -> None:
        run([str(TWO_RACKS), "up", str(self.folder)], timeout_s=patient(60))
        run([str(HERE / "machines"), "up", str(self.folder), str(BASE)], timeout_s=patient(60))

    def down(self) -> None:
        try:
            run([str(HERE / "machines"), "down", str(self.folder)], timeout_s=patient(60))
        finally:
            run([str(TWO_RACKS), "down", str(self.folder)], timeout_s=patient(60))

    def root(self, machine: str) -> Path:
        """The root folder of a machine."""
        return self.folder / "machines" / machine / "root"

    # ── Commands ───────────────────────────────────────────────────────────────────────────────────────────────────

    def on(self, machine: str, command: str, timeout_s: float = 60) -> str:
        """Run a line of shell as root on a machine. Returns its output. Raises CommandFailed."""
        argv = [str(HERE / "machines"), "run", str(self.folder), machine, command]
        return run(argv, timeout_s=patient(timeout_s))

    def tried(self, machine: str, command: str) -> str:
        """Run a line of shell. Returns its output and its error output, whatever its exit code is."""
        return self.on(machine, f"{{ {command}\n}} 2>&1 || true")

    def follow(self, section: str) -> list[str]:
        """Run the blocks of a section of the page, each on its machines. Returns their outputs."""
        blocks = [block for block in of_order(PAGE, "on") if block.section == section]
        assert blocks, f"the page has no section {section}"
        printed: list[str] = []
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for block in blocks:
                machines = block.argument.split(",")
                waiting = [pool.submit(self.on, name, block.text, BLOCK_S) for name in machines]
                printed += [future.result() for future in waiting]
        return printed

    def follow_block(self, section: str, number: int) -> str:
        """Run one block of a section, from 0, on its only machine."""
        block = [block for block in of_order(PAGE, "on") if block.section == section][number]
        return self.on(block.argument, block.text, BLOCK_S)

    # ── What the hub says ──────────────────────────────────────────────────────────────────────────────────────────

    def api(self, path: str) -> dict[str, Any]:
        """Ask the API; empty while the web process starts."""
        try:
            answer = self.on("hub", f"curl -sSf 'http://127.0.0.1:8080/api/v1/{path}'")
        except CommandFailed:
            return {}
        document: dict[str, Any] = json.loads(answer)
        return document

    def up_agents(self) -> set[str]:
        return {agent["name"] for agent in self.api("health").get("agents", []) if agent["alive"]}

    def hosts(self) -> set[str]:
        """Names of the hosts in the network that the controller knows."""
        topology = self.api("topology").get("topology") or {"hosts": []}
        return {host["name"] for host in topology["hosts"]}

    def versions(self) -> set[str]:
        """Versions that the agents report."""
        return {agent["status"]["version"] for agent in self.api("health").get("agents", [])}

    def flows(self, source: str, destination: str) -> list[dict[str, Any]]:
        """Records of watched flows from one host to another."""
        found = self.api("flows?source=watched&limit=500").get("flows", [])
        return [flow for flow in found if (flow["src"], flow["dst"]) == (source, destination)]

    def threshold(self, port: str) -> int:
        """The only threshold of a port (bytes)."""
        (threshold,) = self.api("thresholds")["now"][port]["thresholds_bytes"]
        return int(threshold)

    def queue_bytes(self, port: str) -> list[int]:
        """Bytes that each queue of a port has sent; empty without queues."""
        return list(self.api("ports").get("now", {}).get(port, {}).get("queue_bytes", []))

    # ── Network ────────────────────────────────────────────────────────────────────────────────────────────────────

    def reaches(self, source: str, to: str) -> bool:
        try:
            self.on(source, f"ping -c 3 -i 0.2 -W 1 -w 3 {ADDRESSES[to]}")
        except CommandFailed:
            return False
        return True

    def all_reach(self, names: Sequence[str]) -> bool:
        return all(self.reaches(one, other) for one in names for other in names if one < other)

    def rules(self, rack: str) -> list[str]:
        """The rules of a rack's bridge, without counters and times, in order."""
        shown = self.on(rack, f"ovs-ofctl -O OpenFlow13 --no-stats dump-flows {BRIDGES[rack]}")
        return sorted(line.strip() for line in shown.splitlines() if "actions=" in line)

    def switch_state(self, rack: str) -> str:
        """All that an operator sees of a rack's switch: its configuration, rules, and what is at its interfaces."""
        bridge = "name,controller,fail_mode,other_config,external_ids,flow_tables,protocols"
        port = "name,qos,external_ids,tag,trunks"
        return self.on(
            rack,
            f"""ovs-vsctl --columns={bridge} list Bridge
            ovs-vsctl --columns={port} list Port; ovs-vsctl list QoS; ovs-vsctl list Queue
            ovs-ofctl -O OpenFlow13 --no-stats dump-flows {BRIDGES[rack]}
            for IF in $(ovs-vsctl list-ports {BRIDGES[rack]}); do
              tc qdisc show dev $IF | sed 's/ refcnt [0-9]*//'
              tc filter show dev $IF egress; tc filter show dev $IF ingress
            done""",
        )

    def host_state(self, machine: str) -> str:
        """What Sluice could change on a server. Which controls the kernel has depends on all machines."""
        of_kernel = "-e available_congestion -e allowed_congestion"
        return self.on(
            machine,
            f"sysctl net.ipv4 | grep -v {of_kernel}; ip route show; tc qdisc show; tc filter show dev eth0 egress",
        )

    def queued(self, rack: str) -> set[str]:
        """The interfaces of a rack that have queues of their own."""
        rows = json.loads(self.on(rack, "ovs-vsctl --format=json --columns=name,qos list Port"))["data"]
        return {name for name, qos in rows if qos[0] == "uuid"}

    # ── Traffic ────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, machine: str, command: str) -> None:
        """Start a program that goes on."""
        self.on(machine, f"setsid {command} > /dev/null 2>&1 < /dev/null &")

    def serve(self, machine: str) -> None:
        """Start servers on a machine: HTTP with files of some sizes on port 80, iperf, and the echo of `stream.py`."""
        shutil.copy(HERE / "stream.py", self.root(machine) / "root/stream.py")
        self.on(machine, "mkdir www; for KB in 5 20 500 2000; do head -c ${KB}000 /dev/zero > www/$KB; done")
        self.start(machine, "python3 -m http.server --directory www 80")
        self.start(machine, "iperf -s")
        self.start(machine, "python3 stream.py serve 7000")
        wait_until(
            lambda: self.on(machine, "ss -ltnH | wc -l").strip() == "3", "the servers listen", timeout_s=20
        )

    def fetch(self, client: str, server: str, kb: int, times: int) -> None:
        """Get a file by HTTP, each time over a connection of its own."""
        url = f"http://{ADDRESSES[server]}/{kb}"
        self.on(client, f"for _ in $(seq {times}); do curl -sSf -m 20 -o /dev/null {url}; done", BLOCK_S)

    @contextmanager
    def stream(self, client: str, server: str) -> Iterator[None]:
        """A connection in use throughout. Raises AssertionError if it breaks."""
        home = self.root(client) / "root/stream"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        shutil.copy(HERE / "stream.py", home)
        command = f"cd stream; exec python3 stream.py use {ADDRESSES[server]} 7000 ."
        argv = [str(HERE / "machines"), "run", str(self.folder), client, command]
        using = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            wait_until(
                lambda: (home / "started").exists() or using.poll() is not None, "it is open", timeout_s=20
            )
            yield
            time.sleep(1)
        finally:
            (home / "stop").touch()
            printed, _ = using.communicate(timeout=90)
        assert using.returncode == 0, f"the connection broke: {printed}"
        print("lines and longest wait (s):", printed)
