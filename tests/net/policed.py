# SPDX-License-Identifier: Apache-2.0
"""A network whose hosts may send wrong tags, under a controller that polices them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from sluice import topologies
from sluice.policy import tags
from sluice.runtime.wait import wait_until
from sluice.store import observed
from tests.net.controlled import Controlled

POLICY = {"scheme": "pias", "queues": 2, "thresholds": ["1MB"], "urgent_first": True}
TOP = tags.ATTAINED_FIRST
LINK_BPS = 30_000_000

SINK = """
import collections, json, pathlib, socket, sys, threading, time
got, out = collections.Counter(), pathlib.Path(sys.argv[1])
def drain(connection, peer):
    while data := connection.recv(1 << 18):
        got[peer] += len(data)
        if data[-1:] == b"?":
            connection.sendall(b"!")
def accept(listener):
    while True:
        connection, peer = listener.accept()
        threading.Thread(target=drain, args=(connection, peer[0]), daemon=True).start()
threading.Thread(target=accept, args=(socket.create_server(("0.0.0.0", 5000), backlog=512),), daemon=True).start()
while True:
    new = out.with_suffix(".new")
    new.write_text(json.dumps(got))
    new.rename(out)
    time.sleep(0.05)
"""

STREAM = """
import socket, sys, time
address, dscp = sys.argv[1], int(sys.argv[2])
s = socket.create_connection((address, 5000))
s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
print(time.time(), flush=True)
while True:
    s.sendall(b"x" * 65536)
"""

TAGGER = """
import signal, sys
from sluice.dataplane.tagger import Tagger
tagger = Tagger()
tagger.attach(sys.argv[1])
print("ready", flush=True)
signal.pause()
"""


class Network(Controlled):
    """Six hosts on a switch, a sink on h1, and the API over the same store."""

    def __init__(self, folder: Path) -> None:
        from sluice.webui.app import create_app

        super().__init__(topologies.build("single", hosts=6, host_rate_bps=LINK_BPS), folder, POLICY)
        self.api = create_app(self.engine, "token").test_client()
        self.got_file = folder / "got.json"
        self.streams: list[subprocess.Popen[bytes]] = []
        self.start_controller()
        self.wait_applied()
        self.spawn_python("h1", SINK, self.got_file)
        wait_until(self.got_file.exists, "the sink listens")

    def address(self, host: str) -> str:
        return self.topology.host_by_name[host].ipv4

    def got(self, host: str) -> int:
        """Return the bytes that the sink has received from a host."""
        return int(json.loads(self.got_file.read_text()).get(self.address(host), 0))

    def tagger(self, host: str) -> None:
        """Tag the host's packets, as its agent would."""
        self.spawn_python(host, TAGGER, f"{host}-eth0").wait_printed("ready")

    def stream(self, host: str, dscp: int) -> subprocess.Popen[bytes]:
        """Send without end under one tag."""
        script = self.spawn_python(host, STREAM, self.address("h1"), dscp)
        self.streams.append(script.process)
        script.wait_printed("\n", interval_s=0.01)
        return script.process

    def sanctions(self) -> dict[str, dict[str, Any]]:
        """Return the sanctions in force by host, as the API answers them."""
        answer = self.api.get("/api/v1/sanctions")
        assert answer.status_code == 200
        return {row["host"]: row for row in answer.get_json()["sanctions"]}

    def events(self, kind: str) -> list[Any]:
        """Return the documents of all events of a kind."""
        return [e["document"] for e in observed.events_of(self.engine, kind, 0)]

    def wait_named(self, host: str) -> None:
        """Wait until the API names the host."""
        wait_until(lambda: host in self.sanctions(), f"the API names {host}")

    def wait_restored(self, host: str) -> None:
        """Wait until the API no longer names the host."""
        wait_until(lambda: host not in self.sanctions(), f"{host} is restored")
