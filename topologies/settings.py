# SPDX-License-Identifier: Apache-2.0
"""What a testbed is told at its start, and where its files are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from dataplane.port import PortSettings
from policy.errors import FieldError
from policy.graph import Topology
from policy.marking import DEFAULT_BUFFER_BYTES, PortMarking

DATAPATHS = ("auto", "netdev", "system")


@dataclass(frozen=True)
class Settings:
    """All settings of a testbed but its graph."""

    run_dir: Path
    log_dir: Path
    controller: str | None = "tcp:127.0.0.1:6653"
    """OpenFlow target of all switches: "unix:/PATH", or "tcp:…" as seen in their network namespace; None: none."""
    datapath: str = "auto"
    """"netdev" (userspace), "system" (kernel), or "auto": the kernel's where it has one."""
    web: str | None = None
    """Where the port agent sends its heartbeats: "unix:/path"; None: nowhere."""
    mark_bytes: int | None = None
    """K of every port until something else is said, or min of the ramp; None: no marking by the backlog."""
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    mark_max_bytes: int | None = None
    """Max of the ramp; None: no ramp."""
    phantom_mark_bytes: int | None = None
    """Threshold of the phantom queue; None: there is none."""
    rto_min_ms: int = 10
    initial_window: int = 10
    """Packets."""

    def __post_init__(self) -> None:
        if self.datapath not in DATAPATHS:
            raise FieldError("datapath", f"must be one of {', '.join(DATAPATHS)}, not {self.datapath!r}")
        if self.web is not None and not self.web.startswith("unix:/"):
            raise FieldError("web", f"must be unix:/PATH, not {self.web!r}")
        if not 1 <= self.rto_min_ms <= 120_000:
            raise FieldError("rto_min_ms", f"must be from 1 to 120000, not {self.rto_min_ms}")
        if not 1 <= self.initial_window <= 1000:
            raise FieldError("initial_window", f"must be from 1 to 1000 packets, not {self.initial_window}")
        port_settings(1, self.marking)

    @property
    def marking(self) -> PortMarking:
        """Of every port until something else is said."""
        return PortMarking.from_document(asdict(self))

    @property
    def ovs_dir(self) -> Path:
        """Database, sockets and pid files of the private Open vSwitch."""
        return self.run_dir / "ovs"

    @property
    def status_file(self) -> Path:
        """Written by the testbed's first process: ready or not, and the process ids."""
        return self.run_dir / "status.json"

    @property
    def marking_file(self) -> Path:
        """Marking and buffer asked of the port agent."""
        return self.run_dir / "marking.json"

    @property
    def port_agent_file(self) -> Path:
        """Written by the port agent: what stands on the ports."""
        return self.run_dir / "port-agent.json"

    @property
    def start_file(self) -> Path:
        """These settings and the graph, for the processes inside."""
        return self.run_dir / "testbed.json"

    def save(self, topology: Topology) -> None:
        """Write `start_file`."""
        values = {k: str(v) if isinstance(v, Path) else v for k, v in asdict(self).items()}
        write_json(self.start_file, {"settings": values, "topology": topology.to_document()})


def port_settings(rate_bps: int, marking: PortMarking) -> PortSettings:
    """Of a port of that rate. FieldError when the marking is not possible."""
    return PortSettings(rate_bps, **asdict(marking))


def load_start(path: Path) -> tuple[Settings, Topology]:
    """The inverse of `Settings.save`."""
    document = json.loads(path.read_text())
    values = document["settings"]
    for name in ("run_dir", "log_dir"):
        values[name] = Path(values[name])
    known = {field.name for field in fields(Settings)}
    return Settings(**{k: values[k] for k in known}), Topology.from_document(document["topology"])


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Replace a file in one step: a reader sees the old one or the new one, whole."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(document))
    part.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """A file of `write_json`, None when there is none yet."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    document: dict[str, Any] = json.loads(text)
    return document
