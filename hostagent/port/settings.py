# SPDX-License-Identifier: Apache-2.0
"""The settings of a port agent, the paths of its files, and what a behaviour means for a port."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sluice.dataplane.flow_queues import SUB_QUEUES
from sluice.dataplane.port_settings import PortSettings
from sluice.policy.network.graph import Port, Topology
from sluice.policy.schema.desired import PortBehaviour
from sluice.policy.schema.entries import read, write
from sluice.policy.schema.field_kinds import name_port
from sluice.policy.wire.agents import PortHeartbeat
from sluice.runtime.settings.kinds import WebAddress


@dataclass(frozen=True, kw_only=True)
class PortAgentSettings:
    """What a port agent needs to know, except its ports."""

    run_dir: Path
    web: str | None = None
    """The address for the port agent's heartbeats: "unix:/PATH" or "https://HOST:PORT". None: the agent sends none."""
    agent_name: str = "port-agent"
    """The port agent's name in heartbeats and in its certificate."""
    enrol: str | None = None
    """An enrolment token of kind "port", or the path of a file with one; for an address with https."""
    behaviour: PortBehaviour = field(default_factory=PortBehaviour)
    """The first behaviour of every port."""

    def __post_init__(self) -> None:
        if self.web is not None:
            WebAddress().read("web", self.web)
        read(PortBehaviour, write(self.behaviour))  # refuses one that no document could hold

    @property
    def behaviour_file(self) -> Path:
        """The behaviour that the port agent must apply."""
        return self.run_dir / "behaviour.json"

    @property
    def port_agent_file(self) -> Path:
        """Written by the port agent: what it has applied to the ports."""
        return self.run_dir / "port-agent.json"

    @property
    def report_wanted_file(self) -> Path:
        """Asks the port agent for a report at once. The agent removes it."""
        return self.run_dir / "report-wanted"


def port_settings(
    port: Port,
    behaviour: PortBehaviour,
    *,
    forwards: bool = True,
    queue_of: tuple[int, ...] = (),
    in_vlan_header: bool = False,
) -> PortSettings:
    """Return the port program's settings for a port.

    If a policy has more flow queues than a port, the port uses all that it has. A port at which the policy does not act
    neither marks nor drops. `forwards`: rules of Sluice choose the queue. Otherwise `queue_of` does, the queue of each
    DSCP, and while that is empty, the port only counts. `in_vlan_header`: the rules name it in the header of the VLAN.
    """
    acts = name_port(behaviour.acts_at, port.id) and (forwards or queue_of)
    if not acts:
        return PortSettings(None, behaviour.buffer_bytes, rate_bps=0, by_dscp=not forwards)
    return PortSettings(
        **asdict(behaviour.marking(edge=port.edge)),
        rate_bps=port.rate_bps,
        sub_queues=behaviour.sub_queues and min(behaviour.sub_queues, SUB_QUEUES),
        release_ns=behaviour.release_ns or 0,
        vlan_queue=behaviour.untagged_queue,
        in_vlan_header=in_vlan_header,
        by_dscp=not forwards,
        queue_of=() if forwards else queue_of,
    )


def load_start(path: Path) -> tuple[PortAgentSettings, Topology]:
    """Return what topologies.settings.Settings.save has written, as far as the port agent needs it."""
    document = json.loads(path.read_text())
    values = document["settings"]
    settings = PortAgentSettings(
        run_dir=Path(values["run_dir"]),
        web=values["web"],
        agent_name=values["agent_name"],
        enrol=values["enrol"],
        behaviour=read(PortBehaviour, values["behaviour"]),
    )
    return settings, Topology.from_document(document["topology"])


def write_json(path: Path, document: Any) -> None:
    """Replace a file in one step, so that a reader sees the whole old one or the whole new one."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(document))
    part.replace(path)


def try_write_json(path: Path, document: Any) -> str:
    """Do `write_json`. Returns what is wrong with the disk, and the remedy; empty if the file is written."""
    try:
        write_json(path, document)
    except OSError as error:
        return f"the disk of {path} takes no file ({error.strerror}); make room on the disk"
    return ""


def read_json(path: Path) -> Any:
    """Return a document that `write_json` has written, None if there is none yet."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None


def last_report(settings: PortAgentSettings) -> PortHeartbeat | None:
    """Return the port agent's latest report, None before its first."""
    document = read_json(settings.port_agent_file)
    return read(PortHeartbeat, document) if document else None
