# SPDX-License-Identifier: Apache-2.0
"""QJUMP's guarantee on real switches: the latency of datagrams at level 1 beside TCP that fills all links.

Hosts send one receiver bursts of full frames: each as many as its throughput factor, at nearly the same time. Then they
rest, so that no frame waits for its host's limit. Beside them, each host sends TCP without end to the receiver and to
its neighbour. The latency is one-way, from before a datagram's send() to the kernel's time stamp of its arrival.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.draw import Line, distribution, grid
from experiments.kit.experiment import Claim, Experiment, Given, markdown_table
from experiments.kit.flows import Column
from experiments.kit.runners import Planned, RunAfterRun, named, one_group
from experiments.kit.runs import Results, all_valid, noted
from experiments.peers import datagrams
from experiments.peers.qjump import DCTCP, LINES, NEAR, QJUMP, REST_EPOCHS, TCP, epoch_ns, floods, variants
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import TESTBED
from sluice.policy.units import (
    BITS_PER_BYTE,
    FRAME_BYTES,
    NS_PER_MS,
    NS_PER_S,
    NS_PER_US,
    US_PER_S,
    WIRE_PER_PAYLOAD,
)
from sluice.policy.wire.records import BACKGROUND
from sluice.runs.bundle import read_flows
from sluice.runs.files import read_document, resolve
from sluice.runs.progress import Report
from sluice.runs.stack import START_LEAD_S, Stack
from sluice.runs.testbed_run import run_on_testbed
from sluice.runtime.process import stop
from sluice.runtime.wait import patient, wait_until
from sluice.sweep.points import Point

SCENARIO = Path(__file__).with_name("qjump_testbed.toml")
HOSTS = [f"h{number}" for number in range(1, 9)]
RATE_BPS = 4_000_000
FACTORS = (1, 2, 4, 8)
BURSTS, QUICK_BURSTS = 50, 10
SETTLE_S = 4
"""From the first flow to the first burst."""
SENT_S = 10.0
"""All datagrams have been sent so long after the last flow's end."""
MESSAGES = "messages.json"
FULL = 0.9
"""The least use of the receiver's link that counts as full."""
IN_TIME = 0.95
"""The least share of datagrams that their hosts must send in time. Others are left out."""
COLUMNS = ("p50", "p99", "worst")
COLOURS = {QJUMP: "#cc3311", TCP: "0.4", DCTCP: "#0000cc"}
VARIANTS = variants(len(HOSTS), FACTORS)
FRAME_NS = FRAME_BYTES * BITS_PER_BYTE * NS_PER_S // RATE_BPS


def rest_ns() -> int:
    """From one burst to the next."""
    return REST_EPOCHS * epoch_ns(SCENARIO)


def bursts(given: Given) -> int:
    return QUICK_BURSTS if given.quick else BURSTS


def plan(given: Given) -> Mapping[str, Planned]:
    document, points = read_document(SCENARIO), []
    flows = floods(HOSTS, SETTLE_S * NS_PER_S + (bursts(given) + 1) * rest_ns())
    for variant, (scheme, factor, senders) in VARIANTS.items():
        own = {"throughput_factors": [factor]} if scheme == "qjump" else {}
        for seed in given.seeds:
            tables: dict[str, Any] = {"scheme": {"name": scheme, **own}, "workload": {"flow": flows}}
            folder = f"{scheme}-{factor}-{senders}-seed{seed}"
            points.append(named(document, variant, seed, folder, **tables))
    return one_group(given, points)


def times_ns(variant: str, seed: int, count: int) -> dict[str, list[int]]:
    """Return when each host sends its datagrams, from the first burst on."""
    _, factor, senders = VARIANTS[variant]
    rng = np.random.default_rng([seed, factor, senders])
    times: dict[str, list[int]] = {host: [] for host in HOSTS[1:]}
    for burst in range(count):
        for host in rng.permutation(HOSTS[1:])[:senders]:
            offsets = np.sort(rng.uniform(0, NEAR * epoch_ns(SCENARIO), factor))
            times[str(host)] += (burst * rest_ns() + offsets).astype(int).tolist()
    return times


@contextmanager
def sending(stack: Stack, point: Point, count: int, out: Path) -> Iterator[None]:
    """Send the datagrams beside the flows, and write their latencies into MESSAGES."""
    bed, begin, times = stack.testbed, out / "run" / "begin", times_ns(point.scheme, point.seed, count)
    level = int(VARIANTS[point.scheme][0] == "qjump")
    logs = {host: out / "run" / f"datagrams-{host}.txt" for host in HOSTS}
    send = ["send", stack.topology.hosts[0].ipv4, level, begin, epoch_ns(SCENARIO)]
    words: dict[str, list[Any]] = {HOSTS[0]: ["receive"]} | {
        host: [*send, *due] for host, due in times.items()
    }
    running = {
        host: bed.spawn(host, [sys.executable, datagrams.__file__, *map(str, argv)], log_file=logs[host])
        for host, argv in words.items()
    }
    try:
        wait_until(
            lambda: all("ready" in log.read_text() for log in logs.values()), "hosts are ready for datagrams"
        )
        begin_ns = time.time_ns() + round((START_LEAD_S + SETTLE_S) * NS_PER_S)
        begin.with_suffix(".new").write_text(str(begin_ns))
        begin.with_suffix(".new").rename(begin)
        yield
        if failed := [host for host in times if running[host].wait(timeout=patient(SENT_S))]:
            raise SluiceError(f"{logs[failed[0]]} says why {', '.join(failed)} could not send")
    finally:
        for process in running.values():
            stop(process)
    received, *sent = ([int(line) for line in log.read_text().splitlines()[1:]] for log in logs.values())
    figures = {"planned": sum(map(len, times.values())), "sent": sum(map(sum, sent))}
    (out / MESSAGES).write_text(json.dumps({**figures, "latency_us": [ns / NS_PER_US for ns in received]}))


def run(given: Given, point: Point, out: Path, report: Report) -> dict[str, Any]:
    beside = partial(sending, point=point, count=bursts(given), out=out)
    return run_on_testbed(resolve(point.document), out, report, beside=beside)


def latencies_us(bundle: Path) -> Column:
    """Return the latency of each datagram; infinite if it was lost."""
    found = json.loads((bundle / MESSAGES).read_text())
    lost = found["sent"] - len(found["latency_us"])
    return np.sort([*found["latency_us"], *[np.inf] * lost])


def pooled_us(results: Results, variant: str) -> Column:
    """Return the latencies of all seeds."""
    return np.concatenate([latencies_us(run.bundle) for run in results.runs.at(variant)])


def columns(bundle: Path) -> dict[str, float]:
    """Latencies over the bound, shares of lost datagrams and of those sent in time, TCP to the receiver in Mb/s."""
    over = latencies_us(bundle) * NS_PER_US / epoch_ns(SCENARIO)
    rows = [row for row in read_flows(bundle) if row["source"] == BACKGROUND and row["dst"] == HOSTS[0]]
    ends_s = [row["started_at"] + row["fct_us"] / US_PER_S for row in rows]
    seconds = max(ends_s) - min(row["started_at"] for row in rows)
    return {
        **dict(zip(COLUMNS, np.percentile(over, (50, 99, 100), method="inverted_cdf").tolist(), strict=True)),
        "lost": float(np.isinf(over).mean()),
        "in_time": len(over) / json.loads((bundle / MESSAGES).read_text())["planned"],
        "bulk": sum(row["bytes"] for row in rows) * BITS_PER_BYTE * WIRE_PER_PAYLOAD / seconds / 1e6,
    }


def claims(results: Results) -> list[Claim]:
    runs = results.runs
    verdict = all_valid(runs)
    for variant, (scheme, factor, senders) in VARIANTS.items():
        worst = max(runs.values("worst", variant))
        what = f"{variant}: worst latency over the bound, {epoch_ns(SCENARIO) / NS_PER_MS:.1f} ms"
        if scheme == "qjump" and factor * (senders + 1) <= len(HOSTS):
            verdict.append(Claim(what, "≤ 1", f"{worst:.2f}", worst <= 1))
        elif scheme != "qjump" or factor * senders * FRAME_NS > epoch_ns(SCENARIO):
            verdict.append(Claim(what, "> 1", f"{worst:.2f}", worst > 1))
        else:  # a burst takes less than the bound
            verdict.append(noted(what, f"{worst:.2f}"))
    ours, theirs = (min(runs.values("bulk", variant)) for variant in (QJUMP, TCP))
    in_time = min(value for variant in VARIANTS for value in runs.values("in_time", variant))
    verdict.append(
        Claim("datagrams sent in time, of each run", f"≥ {IN_TIME}", f"{in_time:.3f}", in_time >= IN_TIME)
    )
    what = "throughput of TCP beside level 1 over that without QJUMP"
    return [*verdict, Claim(what, f"≥ {FULL}", f"{ours / theirs:.2f}", ours >= FULL * theirs)]


def table(results: Results) -> str:
    """Return latencies over all seeds in ms, the throughput of TCP to the receiver, and valid runs."""
    rows = []
    for variant in VARIANTS:
        runs, ms = results.runs.at(variant), pooled_us(results, variant) / 1000
        shown = [
            *np.percentile(ms, (50, 99, 100), method="inverted_cdf"),
            max(ms) * NS_PER_MS / epoch_ns(SCENARIO),
        ]
        cells = [f"{value:.3g}" if np.isfinite(value) else "lost" for value in shown]
        lost, bulk = 100 * np.isinf(ms).mean(), np.mean(results.runs.values("bulk", variant))
        rows.append(
            (variant, *cells, f"{lost:.1f}", f"{bulk:.2f}", f"{sum(run.valid for run in runs)}/{len(runs)}")
        )
    headings = ("messages", "p50", "p99", "worst", "worst over the bound", "lost (%)", "TCP (Mb/s)", "valid")
    return markdown_table(headings, rows) + "\n"


def draw(results: Results) -> Figure:
    """Latencies with and without QJUMP, and the worst one of a message that arrived against the throughput factor."""
    figure, [[left, right]] = grid(1, 2, width=4.0)
    bound_us = epoch_ns(SCENARIO) / NS_PER_US
    over = {name: pooled_us(results, name) / bound_us for name in VARIANTS}
    for variant, colour in COLOURS.items():
        distribution(left, over[variant], Line(variant, colour))
    left.axvline(1, color="0.4", linestyle="--")
    left.set(xlabel="latency over the bound", ylabel="share of messages")
    left.legend(frameon=False, fontsize="small")
    for marker, (who, line) in zip("os", LINES.items(), strict=True):
        names = {factor: QJUMP if factor == 1 else f"{who}, f = {factor}" for factor in FACTORS}
        worst = {f: max(over[name][np.isfinite(over[name])]) for f, name in names.items() if name in over}
        right.plot(list(worst), list(worst.values()), marker=marker, label=line.title, color=line.colour)
    right.axhline(1, color="0.4", linestyle="--")
    right.set(
        xlabel="throughput factor f", ylabel="worst latency over the bound", xticks=FACTORS, ylim=(0, None)
    )
    right.legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    claim="On real switches, QJUMP's first level keeps its latency bound beside TCP that fills all links.",
    figure="Grosvenor et al., NSDI 2015, section 3",
    minutes=7,
    runner=RunAfterRun(plan, columns=columns, run=run),
    on=(TESTBED,),
    seeds=(1, 2),
    quick={"seeds": (1,)},
    claims=claims,
    table=table,
    draw=draw,
)
