# SPDX-License-Identifier: Apache-2.0
"""docs/reference/results.md: the files of a result bundle and their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from sluice.policy.figures.metrics import distribution, summarise, summarise_watched
from sluice.policy.figures.validity import (
    FORWARDED_LATE_FRAMES,
    FORWARDED_LATE_LIMIT,
    HOST_LATE_LIMIT,
    LATE_LIMIT,
)
from sluice.policy.schema.entries import entries
from sluice.policy.wire.records import FlowRecord
from sluice.runs.bundle import FLOWS_FILE_SCHEMA, PORT_COLUMNS, SAMPLE_COLUMNS, Column
from sluice.sweep.table import FILE as SWEEP_FILE
from sluice.sweep.table import figures
from tools.reference.markdown import code, fence, page, sentence, table

COLUMN_HEADINGS = ("column", "type", "meaning")

_INTRODUCTION = """\
`sluice run FILE --out DIR` writes a bundle: a folder with the scenario, the versions that ran it, and the results. A
folder with `summary.json` is complete, because that file is written last. While the run lasts, `progress.json` has its
state and its figures so far.

| file | content |
| --- | --- |
| `scenario.json` | the scenario as it was run |
| `policies.json` | every version of the policy, with all its fields and its times |
| `meta.json` | versions, kernel, git, plugins with SHA-256, seed, CPU load, fabric (`on`), `command` of a demo |
| `flows.parquet` | one row for each scheduled flow |
| `ports.parquet` | thresholds and queue counters over time |
| `samples.parquet` | how each running flow fares over time, if the scenario has `sample` |
| `summary.json` | FCT, slowdown, deadlines, validity |

The bundle of a tour also has `scoreboard.json`, `scoreboard.png` and `report.html`.
`sluice run BUNDLE/scenario.json --out NEW` repeats a run.

A bundle of the simulator has the same files, with `"on": "simulator"` in `meta.json`. Its times count from the start of
the run, and its rows stand in the order in which the flows ended."""

_SUMMARY = """\
`fct_us` (microseconds) and `slowdown` each have the groups `all`, `small`, `medium` and `large`. Every group has
{statistics}. Only scheduled flows count; flows of other programs are apart, in `watched`.
Small flows have at most 100 KB, medium flows at most 10 MB; both limits scale with the workload. Unfinished flows are
counted, never dropped: they have no FCT."""

_VALID = """\
`valid.ok` is false if the machine, and not the network, decided the result. `valid.reasons` says why. Each reason is
something that happened to packets or flows, measured against the scenario's own times:"""

_REASONS = (
    (
        "packets were forwarded late",
        "the time from a packet's arrival at a switch to its departure at another port, of one packet in sixteen",
        f"{FORWARDED_LATE_LIMIT:.0%} later than after the time of {FORWARDED_LATE_FRAMES} full frames at that port",
    ),
    (
        "a port was served late",
        "the time in which the port had packets and did not send at its rate",
        f"{LATE_LIMIT:.0%} of the port's sending time",
    ),
    (
        "flows were started late",
        "the delay of each flow's start in the schedule",
        f"{HOST_LATE_LIMIT:.0%} later than after the flow's ideal FCT",
    ),
    (
        "flows were answered late",
        "the time from the arrival of the last byte to the receiver's answer",
        f"{HOST_LATE_LIMIT:.0%} later than after the flow's ideal FCT",
    ),
    (
        "packets were lost outside the emulated queues",
        "drops of interfaces, sockets and other queues",
        "none",
    ),
    ("the switch was restarted", "restarts of `ovs-vswitchd`", "none"),
    ("a host could not do what the scheme asks", "for example run its congestion control", "none"),
)

_NOT_BUSY = """\
A busy CPU is no reason, but a remark (`valid.remarks`). `meta.json` has the CPU shares and all distributions in `cpu`.
The experiment [`validity`](../measurements/soundness.md#the-verdict) disturbs runs. It shows that the limits separate
runs that agree with a quiet one from runs that do not."""

_READ = """\
import pyarrow.compute as pc
import pyarrow.parquet as pq

flows = pq.read_table("results/first/flows.parquet")
small = flows.filter(pc.equal(flows["size_class"], "small"))
print(small.num_rows, "small flows, mean FCT", pc.mean(small["fct_us"]).as_py(), "us")"""

_SUMMARY_KEYS: Mapping[str, str] = {
    "fct_us": "flow completion times in microseconds, by group",
    "slowdown": "FCT over the FCT of the same flow alone in the network, by group",
    "deadlines": "`n` flows with a deadline, `missed`, and `miss_ratio`",
    "retransmissions": "segments that scheduled flows retransmitted",
    "unfinished": "scheduled flows that did not finish",
    "watched": "flows of other programs: `n`, `fct_us`, `slowdown`, `bytes`, `retransmissions`, `unfinished`,"
    " `deadlines`, `missed`",
    "valid": "`ok`, and `reasons` if it is false",
    "versions": "the same figures by version of the policy, if flows lived under several",
}

_SWEEP: Mapping[str, str] = {
    "scheme": "scheme, or the name of a variant",
    "load": "load; null without one",
    "seed": "seed",
    "deadlines": "flows with a deadline",
    "missed": "those that missed it",
    "miss_ratio": "missed over deadlines",
    "retransmissions": "segments that scheduled flows retransmitted",
    "unfinished": "scheduled flows that did not finish",
    "valid": "valid.ok of the run",
    "bundle": "folder of the bundle, below the sweep's folder",
}


def text() -> str:
    """The page."""
    return page(
        "Results",
        "For people who evaluate runs with tools of their own.",
        _INTRODUCTION,
        "## `summary.json`",
        _SUMMARY.format(statistics=_statistics()),
        _summary(),
        "## Valid or not",
        _VALID,
        table(("reason", "measured", "limit"), _REASONS),
        _NOT_BUSY,
        "## `flows.parquet`",
        "One row for each flow of the schedule. Endless flows are there, too, with the source `background`.",
        _flows(),
        "## `ports.parquet`",
        'A row is a change of thresholds (`kind` is "thresholds") or a look at the queue counters ("queues").',
        _columns(PORT_COLUMNS),
        "## `samples.parquet`",
        "On the testbed, the columns after `retransmissions` are null for a flow that was not declared to the kernel."
        " The simulator fills those columns that its model has, and leaves the others null.",
        _columns(SAMPLE_COLUMNS),
        "## `sweep.parquet`",
        f"`sluice sweep` writes `{SWEEP_FILE}`: one row for each point, with these columns.",
        _sweep(),
        "## Read it",
        "Any Parquet reader works. For example, in Python:",
        fence(_READ, "python"),
    )


def _statistics() -> str:
    return ", ".join(code(name) for name in distribution(np.empty(0)))


def _summary() -> str:
    """Every key of summary.json. Raises KeyError for a key without a meaning."""
    keys = [*summarise([]), "watched", "valid", "versions"]
    return table(("key", "meaning"), [(code(key), sentence(_SUMMARY_KEYS[key])) for key in keys])


def _flows() -> str:
    meanings = {one.name: one.help for one in entries(FlowRecord)}
    meanings["slowdown"] = "FCT over ideal FCT. Null if unfinished."
    meanings["policy_version"] = (
        "Version of the policy under which the flow lived. Null if it lived under several."
    )
    rows = [
        (code(field.name), str(field.type), sentence(meanings[field.name])) for field in FLOWS_FILE_SCHEMA
    ]
    return table(COLUMN_HEADINGS, rows)


def _columns(columns: Iterable[Column]) -> str:
    rows = [(code(column.name), str(column.type), sentence(column.help)) for column in columns]
    return table(COLUMN_HEADINGS, rows)


def _sweep() -> str:
    """Every column of sweep.parquet. Raises KeyError for a column without a meaning."""
    summary = {**summarise([]), "watched": summarise_watched([]), "valid": {"ok": True, "reasons": []}}
    columns = ["scheme", "load", "seed", *figures(summary), "bundle"]
    single = [name for name in columns if not name.startswith(("fct_us_", "slowdown_"))]
    many = [
        ("`fct_us_GROUP_STATISTIC`", "for example `fct_us_small_p99`: FCT in microseconds"),
        ("`slowdown_GROUP_STATISTIC`", "for example `slowdown_all_mean`"),
    ]
    rows = [(code(name), sentence(_SWEEP[name])) for name in single]
    return table(("column", "meaning"), [*rows[:3], *many, *rows[3:]])
