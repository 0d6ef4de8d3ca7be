# SPDX-License-Identifier: Apache-2.0
"""Compare the simulator's core with that of another commit: `python -m experiments.bench.against COMMIT`.

The command unpacks the commit into a temporary folder, compiles its core there, and runs the same scenario with both
cores in turn. It needs a clone of the repository, and removes the folder at the end.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.bench.simulator import FABRICS, on_threads, scaled
from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.simulator import build

ROOT = Path(__file__).parents[2]
ENTRIES = ("experiments.bench.simulator", "sluice.bench.simulator", "experiments.bench_simulator")
"""Modules that run one scenario and print its figures; commits have one of them."""
SIZES = {leaves * hosts: (leaves, hosts) for leaves, hosts in FABRICS}


@dataclass(frozen=True)
class Core:
    """A tree of sources with its compiled core."""

    name: str
    tree: Path
    entry: str
    threads: int | None = None
    """None: the key is not set."""

    def run(self, flows: int, leaves: int, hosts_per_leaf: int) -> tuple[float, int]:
        """Run PIAS's scenario in a process of its own; return CPU seconds and packet-hops."""
        changes: Mapping[str, Any] = {**scaled(leaves, hosts_per_leaf), "workload": {"flows": flows}}
        if self.threads:
            changes = on_threads(changes, self.threads)
        figures = json.loads(_python(self.tree, "-m", self.entry, json.dumps(changes)))
        return figures["seconds"], figures["packet_hops"]


@dataclass(frozen=True)
class Comparison:
    """The other core's cost and this one's at one size."""

    hosts: int
    name: str
    other_ns: float
    """CPU time of a packet-hop, median of the rounds."""
    ours_ns: float
    same_work: bool
    """Whether both cores moved as many packets over as many links."""

    def __str__(self) -> str:
        work = "" if self.same_work else "  (other results: the numbers of packet-hops differ)"
        costs = f"{self.other_ns:.1f} ns -> {self.ours_ns:.1f} ns a packet-hop"
        return (
            f"{self.hosts:6,} hosts, {self.name:16} {costs}, ratio {self.other_ns / self.ours_ns:.2f}{work}"
        )


def compare(other: Core, ours: Sequence[Core], hosts: int, flows: int, rounds: int) -> Iterator[Comparison]:
    """Run all cores in turn, so that the machine's other work meets all of them alike."""
    cores = [other, *ours]
    runs: list[list[tuple[float, int]]] = [[] for _ in cores]
    for _ in range(rounds):
        for core, of_core in zip(cores, runs, strict=True):
            of_core.append(core.run(flows, *SIZES[hosts]))
    other_ns, *ours_ns = [
        statistics.median(1e9 * seconds / hops for seconds, hops in of_core) for of_core in runs
    ]
    for core, cost_ns, of_core in zip(ours, ours_ns, runs[1:], strict=True):
        yield Comparison(hosts, core.name, other_ns, cost_ns, of_core[0][1] == runs[0][0][1])


def unpack(commit: str, folder: Path) -> None:
    """Write the files of the commit into the folder. Raises SluiceError if there is no such commit."""
    revision = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if revision.returncode:
        raise SluiceError(
            f"{commit}: no such commit in {ROOT}; this needs a clone with its history (git fetch)"
        )
    archive = folder.with_suffix(".tar")
    _checked(["git", "archive", "--output", str(archive), revision.stdout.strip()], ROOT)
    folder.mkdir()
    _checked(["tar", "--extract", "--file", str(archive), "--directory", str(folder)], ROOT)
    archive.unlink()


def entry_of(tree: Path) -> str:
    """The module of a tree that runs one scenario. Raises SluiceError if the tree has none."""
    for entry in ENTRIES:
        if (tree / f"{entry.replace('.', '/')}.py").exists():
            return entry
    raise SluiceError(
        f"{tree}: has none of {', '.join(ENTRIES)}; give a commit that has a benchmark of the simulator"
    )


def _python(tree: Path, *arguments: str) -> str:
    return _checked([sys.executable, *arguments], tree, PYTHONPATH=str(tree))


def _checked(argv: list[str], folder: Path, **variables: str) -> str:
    try:
        process = subprocess.run(
            argv, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise EnvironmentLacking(f"{argv[0]} is not installed, and this comparison needs it") from None
    if process.returncode:
        raise SluiceError(f"{' '.join(argv)} failed in {folder}:\n{process.stderr[-3000:]}")
    return process.stdout


def _compare_all(arguments: argparse.Namespace, folder: Path) -> None:
    tree = folder / "tree"
    unpack(arguments.commit, tree)
    other = Core(arguments.commit, tree, entry_of(tree))
    print(f"compiling the core of {arguments.commit} in {folder}", flush=True)
    _python(tree, "-m", "sluice.simulator.build")
    build.build()
    ours = [Core("without threads", ROOT, ENTRIES[0]), Core("threads = 1", ROOT, ENTRIES[0], threads=1)]
    print(
        f"{arguments.commit} -> this tree, {arguments.flows:,} flows, CPU time, medians of {arguments.rounds}"
    )
    for hosts in arguments.hosts:
        for comparison in compare(other, ours, hosts, arguments.flows, arguments.rounds):
            print(comparison, flush=True)


def main(argv: Sequence[str]) -> int:
    """The command. Returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m experiments.bench.against", description=__doc__)
    parser.add_argument("commit", help="the commit to compare with")
    parser.add_argument("--flows", type=int, default=3000, help="flows of one run (3000)")
    parser.add_argument(
        "--hosts", type=int, nargs="+", choices=sorted(SIZES), default=[144, 1024], help="hosts (144 1024)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="runs of each core, of which the median counts (3)"
    )
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the folder is removed
    try:
        with tempfile.TemporaryDirectory(prefix="sluice-against-") as folder:
            _compare_all(arguments, Path(folder))
    except SluiceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
