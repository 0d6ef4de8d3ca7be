# SPDX-License-Identifier: Apache-2.0
"""The figures that are computed from the runs of a case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from experiments.checks.ns3 import cases
from experiments.checks.ns3.cases import Case
from experiments.checks.ns3.compare import (
    AVERAGE,
    EXACT,
    FEW,
    TAIL,
    Figure,
    Pair,
    class_times,
    figures_of_times,
    repeats,
    sides,
    times_of,
    times_us,
)
from experiments.checks.ns3.ns3 import Outcome
from experiments.kit.experiment import Claim
from experiments.kit.flows import jain_index
from sluice.policy.units import FRAME_BYTES, HEADER_BYTES


def lone_figures(case: Case, pairs: list[Pair]) -> Iterator[Figure]:
    (pair,) = pairs
    for size, ours, ns3 in zip(cases.LONE_SIZES, pair.ours.fct_us, pair.ns3.fct_us, strict=True):
        yield Figure(f"{case.name}: FCT of {size}", "us", float(ours), float(ns3), EXACT)


def closed_form(case: Case, pairs: list[Pair]) -> Claim:
    """Claim the closed form: a round trip of headers, then the ideal time. No window delays a lone
    flow on this path."""
    (pair,) = pairs
    delay_us = 4 * 1.0 + 4 * 8e6 * HEADER_BYTES / cases.LINK_BPS
    expected_us = pair.flows.ideal_us + delay_us
    most = float(np.abs(pair.ours.fct_us / expected_us - 1).max())
    form = f"handshake {delay_us:.4f} us, then frames of {FRAME_BYTES} bytes at link rate"
    return Claim(
        f"{case.name}: ours against the closed form", form, f"differs by {most:.1e} at most", most < EXACT
    )


def long_figures(case: Case, pairs: list[Pair]) -> Iterator[Figure]:
    """Yield figures of all seeds together. Shares are those of the run with the most uneven ones."""
    ours, ns3 = (_long_numbers(outcomes) for outcomes in sides(pairs))
    tolerance = {"goodput": EXACT, "queue mean": AVERAGE}
    for (what, unit), value in ours.items():
        yield Figure(f"{case.name}: {what}", unit, value, ns3[what, unit], tolerance.get(what, TAIL))


def _long_numbers(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], float]:
    """Return (name, unit) → value. Queue figures exclude the first flows' slow start."""
    settled = int(cases.LONG_SETTLED_S * 1e12) // cases.WATCH_EVERY_PS
    packets = np.concatenate([outcome.backlog_bytes[settled:] for outcome in outcomes]) / FRAME_BYTES
    received_bytes = float(np.mean([outcome.received_bytes.sum() for outcome in outcomes]))
    return {
        ("goodput", "Gb/s"): 8 * received_bytes / cases.LONG_S / 1e9,
        ("Jain's index", ""): min(jain_index(outcome.received_bytes.tolist()) for outcome in outcomes),
        ("queue mean", "packets"): float(packets.mean()),
        ("queue p1", "packets"): float(np.percentile(packets, 1)),
        ("queue p99", "packets"): float(np.percentile(packets, 99)),
        ("marks a run", "packets"): float(np.mean([outcome.marked for outcome in outcomes])),
    }


def incast_figures(case: Case, pairs: list[Pair]) -> Iterator[Figure]:
    """Yield figures of all seeds together."""
    ideal = np.concatenate([pair.flows.ideal_us for pair in pairs])
    ours, ns3 = (times_of(times_us(outcomes), ideal) for outcomes in sides(pairs))
    yield from figures_of_times(case.name, [ours], ns3)
    yield from _counts(case, sides(pairs)[:1], sides(pairs)[1])
    if np.concatenate([pair.ns3.timeouts for pair in pairs]).any():
        our_mean, ns3_mean = (_mean_without_timeout_us(outcomes) for outcomes in sides(pairs))
        yield Figure(f"{case.name}: FCT mean of flows without a timeout", "us", our_mean, ns3_mean, AVERAGE)


def _mean_without_timeout_us(outcomes: Sequence[Outcome]) -> float:
    timeouts = np.concatenate([outcome.timeouts for outcome in outcomes])
    return float(times_us(outcomes)[timeouts == 0].mean())


def _counts(case: Case, runs: Sequence[Sequence[Outcome]], ns3: Sequence[Outcome]) -> Iterator[Figure]:
    for what in ("dropped", "timeouts", "retransmissions"):
        ours = tuple(_sum(run, what) for run in runs)
        several = ours if len(ours) > 1 else ()
        yield Figure(
            f"{case.name}: {what}", "", float(np.median(ours)), _sum(ns3, what), TAIL, few=FEW, runs=several
        )


def _sum(outcomes: Sequence[Outcome], what: str) -> float:
    return float(sum(np.sum(getattr(outcome, what)) for outcome in outcomes))


def web_figures(case: Case, pairs: list[Pair]) -> Iterator[Figure]:
    """Yield figures of all seeds together; ours also with moved starts, which shows the effect of chance."""
    flows = [pair.flows for pair in pairs]
    sizes, ideal = (np.concatenate([getattr(f, name) for f in flows]) for name in ("bytes", "ideal_us"))
    ours, ns3 = sides(pairs)
    runs = [ours, *repeats(case)]
    times = [class_times(sizes, times_us(run), ideal) for run in runs]
    yield from figures_of_times(case.name, times, class_times(sizes, times_us(ns3), ideal))
    yield from _counts(case, runs, ns3)


def same_paths(case: Case, pairs: list[Pair]) -> Claim:
    """Claim that flows take the same paths in both simulators, so that the same flows meet."""
    ours, ns3 = (
        np.concatenate([o.port_packets for o in outcomes]).astype(float) for outcomes in sides(pairs)
    )
    most = float(np.abs(ns3 / ours - 1).max())
    return Claim(f"{case.name}: packets on each link", "ns-3: the same", f"within {most:.1%}", most < AVERAGE)


def speeds(pairs: Mapping[str, list[Pair]]) -> dict[str, dict[str, float]]:
    """Return packet-hops per second of CPU time, for the cases that last long enough."""
    return {
        name: {
            "ours_hops_per_s": sum(p.ours.packet_hops for p in of_case)
            / sum(p.ours.seconds for p in of_case),
            "ns3_hops_per_s": sum(p.ns3.packet_hops for p in of_case) / sum(p.ns3.seconds for p in of_case),
        }
        for name, of_case in pairs.items()
        if sum(p.ours.packet_hops for p in of_case) > 10_000_000
    }


def shipped(pairs: Mapping[str, list[Pair]]) -> dict[str, dict[str, float]]:
    """Return the figures of ns-3 with its mistakes."""
    outcomes = {name: [pair.shipped for pair in of_case if pair.shipped] for name, of_case in pairs.items()}
    return {name: _totals(of_case) for name, of_case in outcomes.items() if of_case}


def _totals(outcomes: list[Outcome]) -> dict[str, float]:
    totals = {
        "timeouts": float(sum(outcome.timeouts.sum() for outcome in outcomes)),
        "marked": float(sum(outcome.marked for outcome in outcomes)),
        "dropped": float(sum(outcome.dropped for outcome in outcomes)),
    }
    fct_us = np.concatenate([outcome.fct_us for outcome in outcomes])
    return totals if np.isnan(fct_us).all() else {**totals, "FCT mean": float(np.nanmean(fct_us))}
