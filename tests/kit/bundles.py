# SPDX-License-Identifier: Apache-2.0
"""Bundles with known flows, for tests of the code that reads them."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kit.experiment import Experiment, Given
from experiments.kit.main import read_command
from experiments.kit.runs import Run
from sluice.policy.wire.records import FINISHED, UNFINISHED, FlowRecord, size_class
from sluice.runs.bundle import BundleWriter

DOCUMENT: dict[str, Any] = {
    "name": "small",
    "fabric": {"topology": "single", "hosts": 4, "host_rate": "1Gbit"},
    "workload": {"sizes": "web-search", "load": 0.5, "flows": 300},
}


def document(
    scheme: str | dict[str, Any] = "dctcp", seed: int = 1, load: float = 0.5, **tables: Any
) -> dict[str, Any]:
    """Return a resolved scenario."""
    merged = {
        **DOCUMENT,
        "seed": seed,
        "scheme": {"name": scheme} if isinstance(scheme, str) else scheme,
        **tables,
    }
    return {**merged, "workload": {**DOCUMENT["workload"], "load": load, **tables.get("workload", {})}}


def flow(
    number: int,
    size_bytes: int,
    fct_us: float | None,
    *,
    scheme: str = "dctcp",
    deadline_us: float | None = None,
) -> FlowRecord:
    """Return a flow that finished, unless it has no FCT. Alone it would take 10 ns a byte."""
    met = None if deadline_us is None else fct_us is not None and fct_us <= deadline_us
    return FlowRecord(
        id=f"r/{number}",
        src="h1",
        dst="h2",
        bytes=size_bytes,
        size_class=size_class(size_bytes),
        started_at=float(number),
        fct_us=fct_us,
        ideal_us=size_bytes / 100,
        deadline_us=deadline_us,
        met=met,
        retransmissions=0,
        congestion_control="sluice_dctcp",
        scheme=scheme,
        status=UNFINISHED if fct_us is None else FINISHED,
    )


def random_flows(seed: int, slower: float = 1.0, flows: int = 300, **fixed: Any) -> list[FlowRecord]:
    """Return flows with sizes over five decades, each up to ten times as slow as alone."""
    rng = np.random.default_rng(seed)
    sizes = (10 ** rng.uniform(3, 8, flows)).astype(int)
    delays = sizes / 100 * (1 + rng.exponential(2.0, flows)) * slower
    return [flow(i, int(s), float(d), **fixed) for i, (s, d) in enumerate(zip(sizes, delays, strict=True))]


def write_bundle(
    folder: Path,
    *,
    scenario: Mapping[str, Any],
    meta: Mapping[str, Any],
    flows: Sequence[FlowRecord],
    thresholds: Iterable[Any] = (),
    samples: Iterable[Any] = (),
    validity_reasons: Sequence[str] = (),
    **versions: Any,
) -> dict[str, Any]:
    """Write a bundle from records and rows, and return its summary. `versions`: as BundleWriter takes them."""
    with BundleWriter(folder, scenario=scenario, **versions) as writer:
        writer.add_records(flows)
        writer.add_thresholds(map(vars, thresholds))
        writer.add_queues(map(vars, samples))
        return writer.finish(meta=meta, validity_reasons=validity_reasons)


def bundle(
    folder: Path,
    scenario: dict[str, Any],
    flows: Sequence[FlowRecord],
    *,
    reasons: Sequence[str] = (),
    on: str = "simulator",
) -> Path:
    """Write a bundle as a run does."""
    meta = {"sluice": "0.1.0", "on": on, "git": {"commit": "0123456789abcdef", "dirty": False}}
    write_bundle(folder, scenario=scenario, meta=meta, flows=flows, validity_reasons=reasons)
    return folder


def sweep(folder: Path, schemes: Sequence[str], loads: Sequence[float], seeds: Sequence[int]) -> Path:
    """Write a sweep's folder. Each later scheme is twice as slow as the one before."""
    for order, scheme in enumerate(schemes):
        for load in loads:
            for seed in seeds:
                flows = random_flows(seed, slower=2.0**order, scheme=scheme, deadline_us=50_000.0)
                name = f"{scheme}/load-{load:g}/seed-{seed:02d}"
                bundle(folder / name, document(scheme, seed, load), flows)
    (folder / "sweep.json").write_text('{"on": "simulator", "points": {}}')
    return folder


NOWHERE = Path("nowhere")


def run_of(variant: str, load: float | None = None, seed: int = 1, **row: Any) -> Run:
    """Return a valid run with all flows finished, unless `row` sets something else."""
    return Run(variant, load, seed, NOWHERE, {"valid": True, "unfinished": 0, **row})


def given(experiment: Experiment[Any], *words: str) -> Given:
    """Return the values of a command line."""
    return read_command(experiment, words)


def record(number: int, **values: Any) -> FlowRecord:
    """Return the record of a finished flow of 10 KB."""
    usual = {"started_at": 101.0 + number, "ideal_us": 1000.0, "retransmissions": 3, "scheme": "tcp"}
    changed = {**usual, "congestion_control": "cubic", **values}
    return replace(flow(number, 10_000, 2000.0), **changed)


PATIENCE_S = 300.0

SCENARIO = """
name = "small"
[fabric]
topology = "single"
hosts = 4
host_rate = "1Gbit"
buffer = "360KB"
[scheme]
name = "dctcp"
[workload]
sizes = "web-search"
pattern = "all-to-all"
load = 0.5
flows = {flows}
[deadlines]
share = 0.3
[sweep]
seeds = [1]
"""


def write_scenario(folder: Path, *, flows: int = 60) -> Path:
    """Write the scenario with so many flows into a folder, and return its path."""
    path = folder / "small.toml"
    path.write_text(SCENARIO.format(flows=flows))
    return path


def sluice(*arguments: object) -> list[str]:
    """The words of a command of Sluice."""
    return [sys.executable, "-m", "sluice", *map(str, arguments)]


def processes_in(folder: Path, module: str = "") -> list[int]:
    """Return every process whose command line names the folder, and this module."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            argv = (process / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(folder).encode() in argv and module.encode() in argv:
            found.append(int(process.name))
    return found
