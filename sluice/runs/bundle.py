# SPDX-License-Identifier: Apache-2.0
"""The result bundle: a folder with the scenario, the versions that ran it, and the results.

scenario.json    the resolved scenario          flows.parquet   one row a flow
meta.json        versions, kernel, git, seed    ports.parquet   thresholds and queue counters over time
summary.json     FCT, slowdown, deadlines, validity; totals of other programs' connections, apart
policies.json    every version of the policy, with all its fields
samples.parquet  how each flow fared over time, if the scenario asks for it
queues.parquet   how switch ports fared over time, if the scenario asks for it
groups.parquet   how long the flows of each label took together, on the simulator, if flows have labels

Each flow has the version of the policy under which it lived.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.policy.figures.metrics import FlowFigures, distribution, summarise, summarise_watched
from sluice.policy.figures.scoreboard import Applied, periods
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.entries import entries, plain_type
from sluice.policy.units import US_PER_S
from sluice.policy.version import VERSION
from sluice.policy.wire import records
from sluice.policy.wire.records import FlowRecord
from sluice.runtime import plugins

if TYPE_CHECKING:  # an installation of the simulator alone has no store, and it takes 0.25 s to load
    from sluice.store.desired import PolicyVersion

Versions: TypeAlias = npt.NDArray[np.int64]
Times: TypeAlias = npt.NDArray[np.float64]
VersionOf: TypeAlias = Callable[[pa.Table], Versions]
"""Returns the version of each row of flows.parquet; 0 for a flow that lived under several."""


def always(version: int) -> VersionOf:
    """Every flow lived under this version."""
    return lambda rows: np.full(rows.num_rows, version, np.int64)


def by_time(versions: Sequence[PolicyVersion], dilation: float = 1.0) -> VersionOf:
    """Flows lived under the versions as the scoreboard says. `versions` are in the order of their numbers.

    An unfinished flow may have lived through each later change. So it counts only for the last version.
    `dilation`: seconds of the wall clock for each second of the FCTs, 1 except in a slow simulation.
    """
    if len(versions) == 1:
        return always(versions[0].version)
    in_force = periods([Applied(v.version, v.policy.scheme, v.created_at, v.applied_at) for v in versions])

    def version_of(rows: pa.Table) -> Versions:
        began_s, ended_s = _times_s(rows, dilation)
        schemes, lived = rows["scheme"].to_numpy().astype(str), np.zeros(rows.num_rows, np.int64)
        for period in in_force:
            inside = (began_s >= period.since_s) & (ended_s <= period.until_s) & (schemes == period.scheme)
            lived[inside] = period.version
        return lived

    return version_of


def by_run(versions: Mapping[str, int], changed_s: Mapping[int, float] | None = None) -> VersionOf:
    """Flows lived under the version of the run that their ids begin with.

    `changed_s`: version → when someone else replaced it during its run (`replaced_by_others`). A flow that ended later,
    or not at all, lived under several versions.
    """
    ends_s = changed_s or {}

    def version_of(rows: pa.Table) -> Versions:
        runs = [flow.rpartition("/")[0] for flow in rows["id"].to_pylist()]
        lived = np.asarray([versions.get(run, 0) for run in runs], np.int64)
        _, ended_s = _times_s(rows)
        until_s = np.asarray([ends_s.get(version, np.inf) for version in lived.tolist()])
        return np.where(ended_s <= until_s, lived, 0)

    return version_of


def replaced_by_others(versions: Sequence[PolicyVersion], author: str) -> dict[int, float]:
    """Return when each version was replaced, if its successor is not of this author."""
    return {
        version.version: after.created_at for version, after in pairwise(versions) if after.author != author
    }


def _times_s(rows: pa.Table, dilation: float = 1.0) -> tuple[Times, Times]:
    """Return when each flow began and ended, in seconds of the Unix epoch. An unfinished flow ends never.

    A record of a slow simulation says that its flow began one FCT before its end, but it began earlier.
    """
    started_s = rows["started_at"].to_numpy()
    lasted_s = rows["fct_us"].to_numpy().astype(float) / US_PER_S
    finished = ~np.isnan(lasted_s)
    ended_s = started_s + np.where(finished, lasted_s, np.inf)
    return np.where(finished, ended_s - dilation * lasted_s, started_s), ended_s


def policy_rows(versions: Sequence[PolicyVersion]) -> list[dict[str, Any]]:
    """Return the versions as policies.json has them."""
    return [policy_row(v.version, v.policy, v.author, v.created_at, v.applied_at) for v in versions]


def policy_row(
    version: int,
    policy: Policy,
    author: str = "scenario",
    created_at: float | None = None,
    applied_at: float | None = None,
) -> dict[str, Any]:
    """Return one version as policies.json has it."""
    return {
        "version": version,
        "policy": policy.to_document(),
        "author": author,
        "created_at": created_at,
        "applied_at": applied_at,
    }


# ── The bundle ───────────────────────────────────────────────────────────────────────────────────────


_LIBRARIES = ("os-ken", "numpy", "sqlalchemy")


@dataclass(frozen=True)
class Column:
    """A column of a Parquet file, with its help for the reference."""

    name: str
    type: pa.DataType
    help: str


PORT_COLUMNS = (
    Column(
        "at", pa.float64(), "Time in seconds: of the Unix epoch; on the simulator, from the start of the run."
    ),
    Column("port", pa.string(), "Name of the port, for example s1:2."),
    Column("kind", pa.string(), "thresholds or queues."),
    Column("policy_version", pa.int64(), "Version of the policy. Only for thresholds."),
    Column(
        "thresholds_bytes", pa.list_(pa.int64()), "Demotion thresholds from then on. Only for thresholds."
    ),
    Column("flows", pa.int64(), "Completed flows that the thresholds follow from. Only for thresholds."),
    Column("queue_bytes", pa.list_(pa.int64()), "Bytes that each queue has sent so far. Only for queues."),
    Column(
        "queue_packets", pa.list_(pa.int64()), "Packets that each queue has sent so far. Only for queues."
    ),
)

_PORTS_SCHEMA = pa.schema([(column.name, column.type) for column in PORT_COLUMNS])

_ARROW_TYPES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}

FLOWS_SCHEMA = pa.schema(
    [
        *(
            (field.name, _ARROW_TYPES[plain_type(FlowRecord, field.name)])
            for field in entries(FlowRecord)
            if field.name
            not in (*records.ONLY_IF_WATCHED, *records.ONLY_ON_TWO_MACHINES, *records.ONLY_IF_LABELLED)
        ),
        ("slowdown", pa.float64()),
    ]
)
"""A flow record without what only watched flows and flows between two machines have, and its slowdown."""

POLICY_VERSION = pa.field("policy_version", pa.int64())
PATH = pa.field("path", pa.list_(pa.string()))
FLOWS_FILE_SCHEMA = FLOWS_SCHEMA.append(POLICY_VERSION).append(PATH)
"""The rows of flows.parquet."""

SAMPLE_COLUMNS = (
    Column("at_s", pa.float64(), "Seconds from the start of the run."),
    Column("flow", pa.string(), "Id of the flow."),
    Column("label", pa.string(), "Label of the flow in the scenario."),
    Column("acked_bytes", pa.int64(), "Payload acknowledged so far."),
    Column("cwnd", pa.int64(), "Congestion window in packets."),
    Column("srtt_us", pa.int64(), "Smoothed round-trip time in microseconds."),
    Column("under_way", pa.int64(), "Packets in flight."),
    Column("retransmissions", pa.int64(), "Segments retransmitted so far."),
    Column("phase", pa.string(), "sending, suspended or killed."),
    Column("windows", pa.int64(), "Windows of data since the flow began."),
    Column("rate_bytes_per_s", pa.int64(), "Averaged throughput."),
    Column("wanted_bytes_per_s", pa.int64(), "Throughput that the deadline needs from now on."),
    Column("alpha", pa.float64(), "Averaged share of marked packets."),
    Column("urgency", pa.float64(), "1 for a flow without a deadline, more for a pressing deadline."),
    Column("precedence", pa.float64(), "Precedence of the flow under DATCP."),
    Column("decrease", pa.float64(), "Share of the window that the next mark takes off."),
    Column("cuts", pa.int64(), "Reductions of the window so far."),
    Column("quenches", pa.int64(), "How often the flow was suspended or killed."),
    Column("resumes", pa.int64(), "How often a suspended flow continued."),
)
"""Columns after `retransmissions` are null where the flow was not declared to the kernel."""

SAMPLES_SCHEMA = pa.schema([(column.name, column.type) for column in SAMPLE_COLUMNS])

QUEUE_COLUMNS = (
    Column("at_s", pa.float64(), "Seconds from the start of the run."),
    Column("port", pa.string(), "Name of the port, for example s1:2."),
    Column(
        "waiting_bytes", pa.int64(), "Bytes that wait at the port, without the packet that it is sending."
    ),
    Column("sent_bytes", pa.int64(), "Bytes sent so far."),
    Column("sent_packets", pa.int64(), "Packets sent so far."),
    Column("marked_packets", pa.int64(), "Packets marked (CE) so far."),
    Column("dropped_packets", pa.int64(), "Packets dropped so far."),
)
QUEUES_SCHEMA = pa.schema([(column.name, column.type) for column in QUEUE_COLUMNS])

GROUP_COLUMNS = (
    Column("label", pa.string(), "Label of the flows."),
    Column("flows", pa.int64(), "Flows with this label."),
    Column("unfinished", pa.int64(), "Those that did not finish."),
    Column("bytes", pa.int64(), "Bytes of all of them."),
    Column("start_s", pa.float64(), "Start of the first, in seconds from the start of the run."),
    Column("end_s", pa.float64(), "End of the last. Null if one is unfinished."),
    Column("completion_us", pa.float64(), "Time between the two, in microseconds."),
)
GROUPS_SCHEMA = pa.schema([(column.name, column.type) for column in GROUP_COLUMNS])
_OPTIONAL = ("summary.json", "samples.parquet", "queues.parquet", "groups.parquet", "trace.parquet")
_ROWS_AT_ONCE = 100_000
MOST_DROPS = 20
"""Ports in the summary's drops."""


_FIGURE_COLUMNS = ("source", "fct_us", "slowdown", "size_class", "deadline_us", "met", "retransmissions")

POLICIES = "policies.json"
VERSIONS = "versions"
"""Key of summary.json: figures by version, if flows lived under several."""
INTERRUPTED = "interrupted"
"""Key of meta.json."""
COMMAND = "command"
"""Key of meta.json: the words of the command that made the bundle, if that is not `sluice run`."""


def machine_meta(seed: int) -> dict[str, Any]:
    """Return what the result depends on, apart from the scenario."""
    git = ["git", "-C", str(Path(__file__).parent)]
    return {
        "sluice": VERSION,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "openvswitch": _first_line(["ovs-vswitchd", "--version"]),
        "libraries": _versions(),
        "git": {
            "commit": _first_line([*git, "rev-parse", "HEAD"]) or None,
            "dirty": bool(_first_line([*git, "status", "--porcelain"])),
        },
        "plugins": {plugin.source: plugin.digest for plugin in plugins.LOADED.values()},
        "seed": seed,
        "written_at": time.time(),
    }


def _versions() -> dict[str, str]:
    """Return the versions of the libraries that are installed. A machine without the testbed lacks some."""
    return {
        library: distribution.version
        for library in _LIBRARIES
        for distribution in importlib.metadata.distributions(name=library)
    }


class Interrupted(KeyboardInterrupt):
    """A signal ended the run before its end. Its bundle is written."""


class BundleWriter:
    """Writes a bundle during the run: rows go to the files, not to memory.

    It writes summary.json last, so a folder with that file is complete. Leaving without `finish`
    closes the files as they are.
    """

    def __init__(
        self,
        out: Path,
        *,
        scenario: Mapping[str, Any],
        policies: Sequence[Mapping[str, Any]] = (),
        version_of: VersionOf | None = None,
    ) -> None:
        """`policies`: the rows of policies.json. `version_of` tells the version of each flow, by default the first."""
        out.mkdir(parents=True, exist_ok=True)
        for optional in (*(out / name for name in _OPTIONAL), *out.glob("*.pcap")):
            optional.unlink(missing_ok=True)
        _write_json(out / "scenario.json", scenario)
        self._out = out
        (out / POLICIES).write_text(json.dumps(list(policies), indent=2) + "\n")
        self._version_of = version_of or always(policies[0]["version"] if policies else 1)
        self._flows = pq.ParquetWriter(out / "flows.parquet", FLOWS_FILE_SCHEMA)
        self._versions: set[int] = set()
        self._samples: pq.ParquetWriter | None = None
        self._queues: pq.ParquetWriter | None = None
        self._trace: pq.ParquetWriter | None = None
        self._port_samples: list[dict[str, npt.NDArray[Any]]] = []
        self._port_sample_rows = 0
        self._groups: dict[str, dict[str, Any]] = {}
        self._ports: list[dict[str, Any]] = []

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def _close(self) -> None:
        self._write_port_samples()
        for writer in (self._flows, self._samples, self._queues, self._trace):
            if writer is not None and writer.is_open:
                writer.close()

    def add_flows(self, rows: pa.Table, paths: pa.Array | None = None) -> None:
        """Add rows of FLOWS_SCHEMA. `paths`: the ports of switches on the path of each flow; None if unknown."""
        lived = self._version_of(rows)
        self._versions.update(lived.tolist())
        column = pa.array(lived, pa.int64(), mask=lived == 0)
        known = pa.nulls(rows.num_rows, PATH.type) if paths is None else paths
        self._flows.write_table(rows.append_column(POLICY_VERSION, column).append_column(PATH, known))

    def add_records(self, records: Sequence[FlowRecord]) -> None:
        rows = [{**record.to_document(), "slowdown": record.slowdown} for record in records]
        self.add_flows(pa.Table.from_pylist(rows, schema=FLOWS_SCHEMA))

    def add_labels(self, labels: Sequence[str], rows: pa.Table) -> None:
        """Note the labels of rows of FLOWS_SCHEMA, empty for flows without one, for groups.parquet."""
        columns = (rows.column(name).to_pylist() for name in ("started_at", "fct_us", "bytes", "source"))
        for label, start_s, fct_us, size_bytes, source in zip(labels, *columns, strict=True):
            if not label:
                continue
            nothing = {"flows": 0, "unfinished": 0, "bytes": 0, "start_s": start_s, "end_s": start_s}
            group = self._groups.setdefault(label, {"label": label, "warm_up": False, **nothing})
            group["flows"] += 1
            group["warm_up"] |= source == records.WARM_UP
            group["unfinished"] += fct_us is None
            group["bytes"] += size_bytes
            group["start_s"] = min(group["start_s"], start_s)
            group["end_s"] = max(group["end_s"], start_s + (fct_us or 0.0) / US_PER_S)

    def _write_groups(self) -> dict[str, Any]:
        """Write groups.parquet, and return the figures of groups whose labels differ behind their last / only.

        No figure has a group that began in the warm-up.
        """
        taken_us: dict[str, list[float]] = {}
        for label, group in self._groups.items():
            values_us = taken_us.setdefault(label.rpartition("/")[0] or label, [])
            if group["unfinished"]:
                group["end_s"] = None
            else:
                group["completion_us"] = (group["end_s"] - group["start_s"]) * US_PER_S
                if not group["warm_up"]:
                    values_us.append(group["completion_us"])
        rows = pa.Table.from_pylist(list(self._groups.values()), schema=GROUPS_SCHEMA)
        pq.write_table(rows, self._out / "groups.parquet")
        return {name: distribution(np.asarray(values_us)) for name, values_us in taken_us.items()}

    def add_thresholds(self, changes: Iterable[Mapping[str, Any]]) -> None:
        self._ports += [{"kind": "thresholds", **change} for change in changes]

    def add_queues(self, samples: Iterable[Mapping[str, Any]]) -> None:
        self._ports += [{"kind": "queues", **sample} for sample in samples]

    def add_samples(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add samples of flows. Without any call the bundle has no such file."""
        if self._samples is None:
            self._samples = pq.ParquetWriter(self._out / "samples.parquet", SAMPLES_SCHEMA)
        self._samples.write_table(pa.Table.from_pylist(list(rows), schema=SAMPLES_SCHEMA))

    def add_trace(self, rows: pa.Table) -> None:
        """Add rows of a trace. Without any call the bundle has no such file."""
        if self._trace is None:
            self._trace = pq.ParquetWriter(self._out / "trace.parquet", rows.schema)
        self._trace.write_table(rows)

    def add_port_samples(self, at_s: float, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add a sample of ports, with the columns of QUEUES_SCHEMA. Without any call the bundle has no such file."""
        ports = len(columns["port"])
        self._port_samples.append({"at_s": np.full(ports, at_s), **columns})
        self._port_sample_rows += ports
        if self._port_sample_rows >= _ROWS_AT_ONCE:
            self._write_port_samples()

    def _write_port_samples(self) -> None:
        if self._port_samples:
            if self._queues is None:
                self._queues = pq.ParquetWriter(self._out / "queues.parquet", QUEUES_SCHEMA)
            rows = {
                name: np.concatenate([sample[name] for sample in self._port_samples])
                for name in QUEUES_SCHEMA.names
            }
            self._queues.write_table(pa.table(rows).cast(QUEUES_SCHEMA))
            self._port_samples, self._port_sample_rows = [], 0

    def finish(
        self,
        *,
        meta: Mapping[str, Any],
        validity_reasons: Sequence[str],
        remarks: Sequence[str] = (),
        watched: Sequence[FlowRecord] = (),
        drops: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        """Write the remaining rows and return the summary. `drops`: packets that ports dropped; None if unknown."""
        self._close()
        pq.write_table(pa.Table.from_pylist(self._ports, schema=_PORTS_SCHEMA), self._out / "ports.parquet")
        _write_json(self._out / "meta.json", meta)
        valid = {"ok": not validity_reasons, "reasons": list(validity_reasons), "remarks": list(remarks)}
        rows = pq.read_table(self._out / "flows.parquet", columns=[*_FIGURE_COLUMNS, POLICY_VERSION.name])
        figures = summarise(row_figures(rows))
        summary = {**figures, "watched": summarise_watched(watched), "valid": valid}
        if len(self._versions) > 1 or 0 in self._versions:  # 0: flows that lived under several
            versions = sorted(self._versions - {0})
            lived = rows.column(POLICY_VERSION.name)
            own = {str(version): rows.filter(pc.equal(lived, version)) for version in versions}
            summary[VERSIONS] = {version: summarise(row_figures(under)) for version, under in own.items()}
        if self._groups:
            summary["groups"] = self._write_groups()
        if drops is not None:
            most = sorted(drops.items(), key=lambda of: of[1], reverse=True)[:MOST_DROPS]
            summary["drops"] = [{"port": port, "packets": packets} for port, packets in most if packets]
        _write_json(self._out / "summary.json", summary)
        return summary


def row_figures(rows: pa.Table) -> FlowFigures:
    """Return the figures of the scheduled flows among rows of FLOWS_SCHEMA."""
    scheduled = rows.filter(pc.equal(rows.column("source"), records.SCHEDULED))

    def of(name: str) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = scheduled.column(name).to_numpy()
        return values

    classes = of("size_class")
    return FlowFigures(
        fct_us=of("fct_us"),
        slowdown=of("slowdown"),
        size_class=sum((classes == name) * np.uint8(i) for i, name in enumerate(records.SIZE_CLASSES)),
        has_deadline=~np.isnan(of("deadline_us")),
        met=of("met") == True,  # noqa: E712 - null where there is no deadline
        retransmissions=int(np.nansum(of("retransmissions").astype(np.float64))),
    )


def is_complete(bundle: Path, scenario: Mapping[str, Any]) -> bool:
    """Whether the folder holds a finished run of exactly this scenario. An interrupted one is not finished."""
    try:
        _, meta, document = (
            json.loads((bundle / f"{name}.json").read_text()) for name in ("summary", "meta", "scenario")
        )
    except (FileNotFoundError, json.JSONDecodeError):
        return False
    return not meta.get(INTERRUPTED) and bool(document == json.loads(json.dumps(scenario)))


def read_flows(bundle: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(bundle / "flows.parquet").to_pylist()
    return rows


def read_samples(bundle: Path) -> list[dict[str, Any]]:
    """Return the samples of the flows, in the order of time."""
    rows: list[dict[str, Any]] = pq.read_table(bundle / "samples.parquet").to_pylist()
    return rows


def read_ports(bundle: Path, kind: str) -> list[dict[str, Any]]:
    """Return the rows of ports.parquet of one kind, "thresholds" or "queues", in the order of time."""
    rows = pq.read_table(bundle / "ports.parquet", filters=[("kind", "=", kind)]).to_pylist()
    return sorted(rows, key=lambda row: row["at"])


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, default=str) + "\n")


def _first_line(argv: list[str]) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.partition("\n")[0]
    except FileNotFoundError:
        return "not installed"
