# SPDX-License-Identifier: Apache-2.0
"""Compare the simulator's core with that of another commit: `python -m experiments.bench.against COMMIT`.

The command unpacks the commit into a temporary folder, compiles its core there, and runs the same scenario with both
cores in turn. It needs a clone of the repository, and removes the folder at the end.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from experiments.bench.simulator import FABRICS, on_threads, scaled
from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.simulator import build

ROOT = Path(__file__).parents[2]
ENTRIES = ("experiments.bench.simulator", "sluice.bench.simulator", "experiments.bench_simulator")
"""Modules that run one scenario and print its figures; commits have one of them."""
SIZES = {leaves * hosts: (leaves, hosts) for leaves, hosts in FABRICS}
OURS = {"without threads": None, "threads = 1": 1}
"""Ways to run this tree's core → its threads; None: the key is not set."""


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
            _compare(arguments, Path(folder))
    except SluiceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _compare(arguments: argparse.Namespace, folder: Path) -> None:
    commit, flows, tree = arguments.commit, arguments.flows, folder / "tree"
    _unpack(commit, tree)
    entry = next((entry for entry in ENTRIES if (tree / f"{entry.replace('.', '/')}.py").exists()), None)
    if entry is None:
        raise SluiceError(
            f"{tree}: has none of {', '.join(ENTRIES)}; give a commit that has a benchmark of the simulator"
        )
    print(f"compiling the core of {commit} in {folder}", flush=True)
    if (tree / "sluice" / "simulator").exists():
        _python(tree, "-m", "sluice.simulator.build")
    else:  # the rooms of older commits are packages of their own
        _python(tree, "-m", "simulator.build")
    build.build()
    print(f"{commit} -> this tree, {flows:,} flows, CPU time, medians of {arguments.rounds}")
    for hosts in arguments.hosts:
        other: list[tuple[float, int]] = []
        ours: dict[str, list[tuple[float, int]]] = {name: [] for name in OURS}
        for _ in range(arguments.rounds):  # in turn, so that the machine's other work meets all of them alike
            other.append(_run(tree, entry, flows, hosts))
            for name, threads in OURS.items():
                ours[name].append(_run(ROOT, ENTRIES[0], flows, hosts, threads))
        for name, runs in ours.items():
            theirs_ns, ours_ns = (median(cost for cost, _ in of_core) for of_core in (other, runs))
            # The same work: both cores moved as many packets over as many links.
            work = "" if runs[0][1] == other[0][1] else "  (other results: the numbers of packet-hops differ)"
            costs = f"{theirs_ns:.1f} ns -> {ours_ns:.1f} ns a packet-hop, ratio {theirs_ns / ours_ns:.2f}"
            print(f"{hosts:6,} hosts, {name:16} {costs}{work}", flush=True)


def _run(tree: Path, entry: str, flows: int, hosts: int, threads: int | None = None) -> tuple[float, int]:
    """Run PIAS's scenario in a process of its own. Returns the CPU time of a packet-hop in ns, and packet-hops."""
    changes: dict[str, Any] = {**scaled(*SIZES[hosts]), "workload": {"flows": flows}}
    if threads:
        changes = on_threads(changes, threads)
    figures = json.loads(_python(tree, "-m", entry, json.dumps(changes)))
    return 1e9 * figures["seconds"] / figures["packet_hops"], figures["packet_hops"]


def _unpack(commit: str, folder: Path) -> None:
    """Write the files of the commit into the folder. Raises SluiceError if there is no such commit."""
    parse = ["git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"]
    revision = subprocess.run(parse, cwd=ROOT, capture_output=True, text=True, check=False)
    if revision.returncode:
        raise SluiceError(
            f"{commit}: no such commit in {ROOT}; this needs a clone with its history (git fetch)"
        )
    archive = folder.with_suffix(".tar")
    _checked(["git", "archive", "--output", str(archive), revision.stdout.strip()], ROOT)
    folder.mkdir()
    _checked(["tar", "--extract", "--file", str(archive), "--directory", str(folder)], ROOT)
    archive.unlink()


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
