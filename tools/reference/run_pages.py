# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/reference about a run: the tables and keys of a scenario, and the files of a result bundle."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from sluice.policy.figures.metrics import distribution, summarise, summarise_watched
from sluice.policy.figures.validity import (
    FORWARDED_LATE_FRAMES,
    FORWARDED_LATE_LIMIT,
    HOST_LATE_LIMIT,
    LATE_LIMIT,
)
from sluice.policy.network.graph import Links
from sluice.policy.schema.entries import entries
from sluice.policy.wire.records import FlowRecord
from sluice.policy.workload.flows import Deadlines
from sluice.policy.workload.listed_flows import ExplicitFlow
from sluice.policy.workload.random_flows import PATTERNS
from sluice.policy.workload.scenario import (
    Background,
    FabricKeys,
    ScenarioKeys,
    SimulatorSettings,
    TcpVariant,
    Transport,
)
from sluice.policy.workload.tables import (
    CommonKeys,
    FlowTableKeys,
    IncastKeys,
    MixKeys,
    RandomKeys,
    ShiftKeys,
    TraceKeys,
)
from sluice.runs.bundle import FLOWS_FILE_SCHEMA, PORT_COLUMNS, SAMPLE_COLUMNS, Column
from sluice.sweep.points import SweepKeys
from sluice.sweep.table import FILE as SWEEP_FILE
from sluice.sweep.table import figures
from sluice.topologies import TOPOLOGIES
from tools.reference.markdown import HEADINGS, code, fence, keys_of, page, row, sentence, table

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "reference" / "example.toml"
LISTED = ROOT / "docs" / "reference" / "example-listed-flows.toml"

_SCENARIO = """\
A scenario is one TOML file. `sluice run`, `sluice sweep` and `sluice demo` read it, and the testbed and the simulator
both run it. An unknown key is an error that names the key. `sluice/data/scenarios/` has examples, and every command
takes the name of one of them in place of a path.

A rate is text such as `"10Gbit"`, a size such as `"360KB"` or `"65pkt"`, a duration such as `"0.2us"`. Prefixes are
decimal: 1 KB is 1000 bytes. A packet (`pkt`) counts 1500 bytes. Hosts are `h1`, `h2` and so on."""

_BACKGROUND = """\
The testbed runs these flows by iperf. The simulator refuses them: list an endless flow there (`until`)."""

_SCHEME = """\
`name` is the scheme. Every other key is a field of the policy and overrides the scheme's default: the
[policy reference](policy.md) lists them. Two values are special. With `thresholds = "optimal"` the scenario takes the
thresholds of least mean slowdown for its sizes and load; with `thresholds = "pias"`, those of PIAS's own model.

A fabric refuses a scheme that it cannot carry out ([schemes](schemes.md))."""

_WORKLOAD = """\
A workload is one of five sorts. The keys decide which one it is:

- [random flows](#workload-random-flows): the keys `flows` and `sizes` or `mix`;
- [an incast](#workload-incast): `pattern = "incast"`;
- [a table of flows](#workload-table-of-flows): the key `trace` with the name of a `.csv` or `.parquet` file;
- [a trace](#workload-trace): the key `trace` with the name of another file;
- [a list of all flows](#workload-listed-flows): `[[workload.flow]]` tables and no other key.

Flows start at random times (a Poisson process). Each property of the flows has a random generator of its own, which
starts from the scenario's seed. Deadlines for more flows therefore change no start, size or host, and every scheme
gets the same traffic on both fabrics. A load that some link cannot carry is an error; `interarrival`, traces and
listed flows may overload links."""

_PATTERNS = {
    "all-to-all": "any host sends to any other host",
    "many-to-one": "every other host sends to the host `to`",
    "permutation": "each host sends to one other host, and each receives from one",
    "incast": "a host asks `fanin` others, which answer at the same time",
}

_TRACE = """\
Each line of the file is `ms KB sender`: milliseconds since the flow before, the size in units of 1024 bytes, and the
number of the sender. Sender 0 is the first host that is not the receiver. `#` starts a comment."""

_FLOW_TABLE = """\
The file has one row for each flow, in CSV with the names of the columns in the first line, or in Parquet:

```text
time,src,dst,bytes,deadline
0s,h1,h3,20KB,5ms
120us,h2,h3,1MB,
```

A value has a unit, as everywhere. A column whose name ends in a unit holds plain numbers: `time_s`, `time_ms`,
`time_us`, `time_ns`, and the same for `deadline`. `bytes` also takes plain numbers. `time` is the start since the
start of the run, and `deadline` counts from the flow's start. It may be empty or missing. Rows need no order. The
program of a flow with a deadline declares the size, too."""

_LISTED = """\
Each flow is a `[[workload.flow]]` table, and the scenario has no `[deadlines]`. Times count from the start of the run,
except for the deadline. An endless flow (`until`) is background traffic: its record holds the bytes that arrived, and
the figures of the run leave it out. A killed flow is unfinished, with the reason "quenched"."""

_TCP = """\
Implementations of TCP differ in these, and so do results of simulators. The defaults are Linux's. The other values are
those of ns-2's FullTcp with the patch of pFabric's authors, as the authors of PIAS ran it."""

_SWEEP = """\
`sluice sweep` reads this table, and `sluice run` ignores it. The command line has precedence.
`[sweep.scheme.NAME]` holds keys of `[scheme]` for the scheme NAME. A further table inside it changes another table
(`fabric`, `transport`, `workload`, `deadlines`, `simulator`), and a load as a name holds keys for that load alone.
With the key `name`, NAME is a variant: a label of your own for the scheme that `name` says."""


def scenario_page() -> str:
    """Return docs/reference/scenario.md: every table and key of a scenario."""
    links = {entry.key for entry in entries(Links)}
    common = {entry.key for entry in entries(CommonKeys)}
    topologies = [
        (
            f"### Topology `{kind}`",
            f"The first lines of `{module.__name__.replace('.', '/')}.py` say which host is at which port.",
            keys_of(module.Parameters, links),
        )
        for kind, module in TOPOLOGIES.items()
    ]
    return page(
        "Scenario",
        "For people who write scenario files.",
        _SCENARIO,
        "## A complete example",
        _example(EXAMPLE),
        "## Keys at the top",
        keys_of(ScenarioKeys),
        "## `[[background]]`",
        _BACKGROUND,
        keys_of(Background),
        "## `[fabric]`",
        "These keys hold for every topology. A [plugin](../how-to/plugins.md) adds topologies with keys of their own.",
        keys_of(FabricKeys),
        *(part for topology in topologies for part in topology),
        "## `[scheme]`",
        _SCHEME,
        "## `[transport]`",
        keys_of(Transport),
        "## `[simulator]`",
        "The testbed ignores this table: it has these properties by nature.",
        keys_of(SimulatorSettings),
        "### `[simulator.tcp]`",
        _TCP,
        keys_of(TcpVariant),
        "## `[workload]`",
        _WORKLOAD,
        "### Workload: random flows",
        table(HEADINGS, [row(entry) for entry in entries(RandomKeys)]),
        table(("pattern", "senders and receivers"), [(code(name), _PATTERNS[name]) for name in PATTERNS]),
        "#### A part of `mix`",
        keys_of(MixKeys),
        "#### `[workload.shift]`",
        keys_of(ShiftKeys),
        "### Workload: incast",
        "The keys of random flows without `sizes`, `mix` and `shift`, and these:",
        keys_of(IncastKeys, common),
        "### Workload: table of flows",
        _FLOW_TABLE,
        keys_of(FlowTableKeys),
        "### Workload: trace",
        _TRACE,
        keys_of(TraceKeys),
        "### Workload: listed flows",
        _LISTED,
        _example(LISTED),
        keys_of(ExplicitFlow),
        "## `[deadlines]`",
        "Without this table no flow has a deadline. Listed flows have deadlines of their own.",
        keys_of(Deadlines),
        "## `[sweep]`",
        _SWEEP,
        keys_of(SweepKeys),
    )


def _example(path: Path) -> str:
    """The file as a code block, without the line of its licence."""
    return fence(path.read_text().partition("\n")[2], "toml")


COLUMN_HEADINGS = ("column", "type", "meaning")

_BUNDLE = """\
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
    keys = [*summarise([]), "watched", "valid", "versions"]
    meanings = {entry.name: entry.help for entry in entries(FlowRecord)}
    meanings["slowdown"] = "FCT over ideal FCT. Null if unfinished."
    meanings["policy_version"] = (
        "Version of the policy under which the flow lived. Null if it lived under several."
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
        "Results",
        "For people who evaluate runs with tools of their own.",
        _BUNDLE,
        "## `summary.json`",
        _SUMMARY.format(statistics=", ".join(map(code, distribution(np.empty(0))))),
        table(("key", "meaning"), [(code(key), sentence(_SUMMARY_KEYS[key])) for key in keys]),
        "## Valid or not",
        _VALID,
        table(("reason", "measured", "limit"), _REASONS),
        _NOT_BUSY,
        "## `flows.parquet`",
        "One row for each flow of the schedule. Endless flows are there, too, with the source `background`.",
        table(COLUMN_HEADINGS, flows),
        "## `ports.parquet`",
        'A row is a change of thresholds (`kind` is "thresholds") or a look at the queue counters ("queues").',
        _columns(PORT_COLUMNS),
        "## `samples.parquet`",
        "On the testbed, the columns after `retransmissions` are null for a flow that was not declared to the kernel."
        " The simulator fills those columns that its model has, and leaves the others null.",
        _columns(SAMPLE_COLUMNS),
        "## `sweep.parquet`",
        f"`sluice sweep` writes `{SWEEP_FILE}`: one row for each point, with these columns.",
        table(("column", "meaning"), [*of_points[:3], *many, *of_points[3:]]),
        "## Read it",
        "Any Parquet reader works. For example, in Python:",
        fence(_READ, "python"),
    )


def _columns(columns: Iterable[Column]) -> str:
    rows = [(code(column.name), str(column.type), sentence(column.help)) for column in columns]
    return table(COLUMN_HEADINGS, rows)
