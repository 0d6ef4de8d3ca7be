# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/reference about a run: the tables and keys of a scenario, and the files of a result bundle."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from sluice.policy.figures import validity
from sluice.policy.figures.metrics import distribution, summarise, summarise_watched
from sluice.policy.network.graph import Links
from sluice.policy.schema.entries import entries
from sluice.policy.wire.records import FlowRecord
from sluice.policy.workload import scenario, tables
from sluice.policy.workload.collectives import Collective
from sluice.policy.workload.flows import PATTERN, CommonKeys, Deadlines
from sluice.policy.workload.listed_flows import ExplicitFlow
from sluice.runs.bundle import (
    FLOWS_FILE_SCHEMA,
    GROUP_COLUMNS,
    MOST_DROPS,
    PORT_COLUMNS,
    QUEUE_COLUMNS,
    SAMPLE_COLUMNS,
    Column,
)
from sluice.sweep.points import SweepKeys
from sluice.sweep.table import FILE as SWEEP_FILE
from sluice.sweep.table import figures
from sluice.topologies import TOPOLOGIES
from tools.reference.markdown import code, fence, joined, keys_of, page, sentence, table

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
_TABLES = (
    *(scenario.ScenarioKeys, scenario.Background, scenario.FabricKeys, scenario.Transport),
    *(scenario.SimulatorSettings, scenario.SharedBuffer, scenario.Fault, scenario.TcpVariant),
    *(tables.RandomKeys, tables.MixKeys, tables.ShiftKeys, tables.IncastBeside, tables.FlowTableKeys),
    *(ExplicitFlow, Collective, Deadlines, SweepKeys),
)
_PATTERNS = {
    "all-to-all": "any host sends to any other host",
    "many-to-one": "every other host sends to the host `to`",
    "permutation": "each host sends to one other host, and each receives from one",
    "incast": "a host asks `fanin` others, which answer at the same time",
}


def scenario_page() -> str:
    """Return docs/reference/scenario.md: every table and key of a scenario."""
    links = {entry.key for entry in entries(Links)}
    topologies = [
        joined(
            (
                f"### Topology `{kind}`",
                f"The first lines of `{module.__name__.replace('.', '/')}.py` say which host is at which port.",
                keys_of(module.Parameters, links),
            )
        )
        for kind, module in TOPOLOGIES.items()
    ]
    return page(
        "scenario",
        **{keys.__name__: keys_of(keys) for keys in _TABLES},
        example=_example("example.toml"),
        listed=_example("example-listed-flows.toml"),
        topologies=joined(topologies),
        patterns=table(
            ("pattern", "senders and receivers"), [(code(name), _PATTERNS[name]) for name in PATTERN.options]
        ),
        incast=keys_of(tables.IncastKeys, {entry.key for entry in entries(CommonKeys)}),
    )


def _example(name: str) -> str:
    """The file as a code block, without the line of its licence."""
    return fence((REFERENCE / name).read_text().partition("\n")[2], "toml")


_SUMMARY_KEYS: Mapping[str, str] = {
    "fct_us": "flow completion times in microseconds, by group",
    "slowdown": "FCT over the FCT of the same flow alone in the network, by group",
    "deadlines": "`n` flows with a deadline, `missed`, and `miss_ratio`",
    "retransmissions": "segments that scheduled flows retransmitted",
    "unfinished": "scheduled flows that did not finish",
    "watched": "flows of other programs: `n`, `fct_us`, `slowdown`, `bytes`, `retransmissions`, `unfinished`,"
    " `deadlines`, `missed`",
    "groups": "`n`, mean and percentiles of the completion times of labels, in microseconds; labels that differ behind"
    " their last `/` count together. Only if flows have labels, on the simulator",
    "drops": f"the ports that dropped the most packets, at most {MOST_DROPS}: `port`, where a host's own port has the"
    " name of the host, and `packets`, the most first; only on the simulator",
    "valid": "`ok`, and `reasons` if it is false",
    "versions": "the same figures by version of the policy, if flows lived under several",
}

_SWEEP_COLUMNS: Mapping[str, str] = {
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


def results_page() -> str:
    """Return docs/reference/results.md: the files of a result bundle and their columns.

    Raises KeyError for a key or a column without a meaning.
    """
    keys = [*summarise([]), "groups", "drops", "watched", "valid", "versions"]
    meanings = {entry.name: entry.help for entry in entries(FlowRecord)}
    meanings["slowdown"] = "FCT over ideal FCT. Null if unfinished."
    meanings["policy_version"] = (
        "Version of the policy under which the flow lived. Null if it lived under several."
    )
    meanings["source"] += " warm-up: the simulator does not measure it (`measure_from`)."
    meanings["path"] = (
        "Names of the ports by which switches sent its data, for example s1:3. Null on the testbed, and if packets"
        " of a flow take several paths (`multipath`). If links are rerouted, the path at the end of the flow."
    )
    summary = {**summarise([]), "watched": summarise_watched([]), "valid": {"ok": True, "reasons": []}}
    columns = ["scheme", "load", "seed", *figures(summary), "bundle"]
    single = [name for name in columns if not name.startswith(("fct_us_", "slowdown_"))]
    many = [
        ("`fct_us_GROUP_STATISTIC`", "for example `fct_us_small_p99`: FCT in microseconds"),
        ("`slowdown_GROUP_STATISTIC`", "for example `slowdown_all_mean`"),
    ]
    of_points = [(code(name), sentence(_SWEEP_COLUMNS[name])) for name in single]
    flows = [
        (code(field.name), str(field.type), sentence(meanings[field.name])) for field in FLOWS_FILE_SCHEMA
    ]
    return page(
        "results",
        statistics=", ".join(map(code, distribution(np.empty(0)))),
        summary=table(("key", "meaning"), [(code(key), sentence(_SUMMARY_KEYS[key])) for key in keys]),
        forwarded_limit=f"{validity.FORWARDED_LATE_LIMIT:.0%}",
        forwarded_frames=validity.FORWARDED_LATE_FRAMES,
        late_limit=f"{validity.LATE_LIMIT:.0%}",
        host_late_limit=f"{validity.HOST_LATE_LIMIT:.0%}",
        flows=table(_COLUMN_HEADINGS, flows),
        ports=_columns(PORT_COLUMNS),
        samples=_columns(SAMPLE_COLUMNS),
        queues=_columns(QUEUE_COLUMNS),
        groups=_columns(GROUP_COLUMNS),
        sweep_file=SWEEP_FILE,
        sweep=table(("column", "meaning"), [*of_points[:3], *many, *of_points[3:]]),
    )


_COLUMN_HEADINGS = ("column", "type", "meaning")


def _columns(columns: Iterable[Column]) -> str:
    rows = [(code(column.name), str(column.type), sentence(column.help)) for column in columns]
    return table(_COLUMN_HEADINGS, rows)
