# SPDX-License-Identifier: Apache-2.0
"""docs/reference/scenario.md: every table and key of a scenario."""

from __future__ import annotations

from pathlib import Path

from sluice.policy.network.graph import Links
from sluice.policy.schema.entries import entries
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
from sluice.sweep.points import SweepKeys
from sluice.topologies import TOPOLOGIES
from tools.reference.documents import HEADINGS, keys_of, row
from tools.reference.markdown import code, fence, page, table

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "reference" / "example.toml"
LISTED = ROOT / "docs" / "reference" / "example-listed-flows.toml"

_INTRODUCTION = """\
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


def text() -> str:
    """The page."""
    return page(
        "Scenario",
        "For people who write scenario files.",
        _INTRODUCTION,
        "## A complete example",
        _example(EXAMPLE),
        "## Keys at the top",
        keys_of(ScenarioKeys),
        "## `[[background]]`",
        _BACKGROUND,
        keys_of(Background),
        *_fabric(),
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
        *_workload(),
        "## `[deadlines]`",
        "Without this table no flow has a deadline. Listed flows have deadlines of their own.",
        keys_of(Deadlines),
        "## `[sweep]`",
        _SWEEP,
        keys_of(SweepKeys),
    )


def _fabric() -> list[str]:
    parts = [
        "## `[fabric]`",
        "These keys hold for every topology. A [plugin](../how-to/plugins.md) adds topologies with keys of their own.",
        keys_of(FabricKeys),
    ]
    common = {one.key for one in entries(Links)}
    for kind, module in TOPOLOGIES.items():
        parts += [
            f"### Topology `{kind}`",
            f"The first lines of `{module.__name__.replace('.', '/')}.py` say which host is at which port.",
            keys_of(module.Parameters, common),
        ]
    return parts


def _workload() -> list[str]:
    common = {one.key for one in entries(CommonKeys)}
    return [
        "## `[workload]`",
        _WORKLOAD,
        "### Workload: random flows",
        table(HEADINGS, [row(one) for one in entries(RandomKeys)]),
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
    ]


def _example(path: Path) -> str:
    """The file as a code block, without the line of its licence."""
    return fence(path.read_text().partition("\n")[2], "toml")
