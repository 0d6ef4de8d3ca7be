# SPDX-License-Identifier: Apache-2.0
"""One scenario on the simulator, from the schedule to the bundle, with the same files as a run on
the testbed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sluice.policy.fabrics import SIMULATOR
from sluice.policy.workload.flows import Workload
from sluice.policy.workload.scenario import Scenario
from sluice.runs.bundle import INTERRUPTED, BundleWriter, Interrupted, machine_meta, row_figures
from sluice.runs.files import Resolved
from sluice.runs.partial import RunningFigures
from sluice.runs.progress import Progress, Report, flow_count
from sluice.runs.simulated_flows import flow_rows
from sluice.runs.versions import policy_row
from sluice.simulator.division import Division
from sluice.simulator.taps import PHASES, SimulationProgress, Taps, ThresholdsMoved

UNIT_Q20 = 1 << 20
UNIT_Q16 = 1 << 16


def run_on_simulator(
    resolved: Resolved,
    out: Path,
    report: Report = lambda progress: None,
    division: Division | None = None,
) -> dict[str, Any]:
    """Run a scenario on the simulated fabric and write its bundle. Returns the summary.

    `division`: that of `divide`, if it is known already. The core must be compiled (`sluice.simulator.build`).
    """
    from sluice.simulator.run import Simulation

    scenario, document, topology = resolved
    run_id = f"{scenario.name}-{scenario.seed}"
    with BundleWriter(out, scenario=document, policies=[policy_row(1, scenario.policy)]) as bundle:
        labels: dict[int, str] = {}
        timeouts, figures = 0, RunningFigures()

        def add_flows(columns: Mapping[str, Any]) -> None:
            nonlocal timeouts
            timeouts += int(columns["timeouts"].sum())
            count, policy = len(columns["number"]), scenario.policy
            rows = flow_rows(
                columns,
                topology,
                run_id,
                size_scale=_scale(scenario),
                schemes=np.full(count, policy.scheme),
                controls=np.full(count, policy.definition.congestion_control),
            )
            bundle.add_flows(rows)
            figures.add(row_figures(rows))

        taps = Taps(
            flows=add_flows,
            thresholds=lambda moved: bundle.add_thresholds([_threshold_row(moved)]),
            senders=lambda at_s, columns: bundle.add_samples(_sample_rows(at_s, columns, run_id, labels)),
            report=lambda progress: report(_in_flows(progress, flow_count(scenario), figures)),
        )
        simulation = Simulation(scenario, topology, taps, labels, division)
        interruption = ""
        try:
            simulation.run()
        except KeyboardInterrupt as signal:
            interruption = f"interrupted by {signal or 'SIGINT'}; only the flows that had ended are in it"
        meta = {
            **machine_meta(scenario.seed),
            "run_id": run_id,
            "on": SIMULATOR,
            "start_at": 0.0,
            "tcp": {"retransmission_timeouts": timeouts},
            INTERRUPTED: bool(interruption),
            **simulation.totals(),
        }
        summary = bundle.finish(meta=meta, validity_reasons=[interruption] if interruption else [])
    if interruption:
        raise Interrupted(f"{interruption}; the bundle so far is in {out}")
    return summary


def _in_flows(progress: SimulationProgress, total: int, figures: RunningFigures) -> Progress:
    """Return the progress for a bar over flows: the time left follows from how fast flows have ended so far."""
    return Progress(progress.ended, total, progress.ended, total, figures)


def _scale(scenario: Scenario) -> float:
    """Return the scale of the size classes."""
    return scenario.workload.scale if isinstance(scenario.workload, Workload) else 1.0


def _threshold_row(moved: ThresholdsMoved) -> dict[str, Any]:
    return {
        "at": moved.at_s,
        "port": moved.port,
        "policy_version": 1,
        "thresholds_bytes": list(moved.thresholds_bytes),
        "flows": moved.flows,
    }


def _sample_rows(
    at_s: float, columns: Mapping[str, Any], run_id: str, labels: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Return rows of samples.parquet: the state of every active sender."""
    return [
        {
            "at_s": at_s,
            "flow": f"{run_id}/{number}",
            "label": labels.get(number, ""),
            "acked_bytes": int(columns["acked_bytes"][i]),
            "cwnd": int(columns["cwnd"][i]),
            "srtt_us": int(columns["rtt_us"][i]),
            "phase": PHASES[columns["phase"][i]],
            "rate_bytes_per_s": int(columns["rate_bytes_per_s"][i]),
            "alpha": columns["alpha_q20"][i] / UNIT_Q20,
            "urgency": columns["urgency_q16"][i] / UNIT_Q16,
            "precedence": columns["precedence_q16"][i] / UNIT_Q16,
            "decrease": columns["penalty_q20"][i] / UNIT_Q20 / 2,
        }
        for i, number in enumerate(columns["id"].tolist())
    ]
