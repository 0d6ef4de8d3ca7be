# SPDX-License-Identifier: Apache-2.0
"""One scenario on the simulator, from the schedule to the bundle, with the same files as a run on the testbed.

Ended flows of the simulator, with the columns of their schedule, become rows of flows.parquet or records.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluice.policy import controls
from sluice.policy.fabrics import SIMULATOR
from sluice.policy.figures.metrics import size_classes
from sluice.policy.network.graph import Topology
from sluice.policy.units import PS_PER_US
from sluice.policy.wire.records import (
    BACKGROUND,
    FINISHED,
    SCHEDULED,
    SIZE_CLASSES,
    UNFINISHED,
    WARM_UP,
    FlowRecord,
)
from sluice.runs import bundle
from sluice.runs.files import Resolved
from sluice.runs.progress import Progress, Report, RunningFigures, flow_count
from sluice.runtime.lifecycle import end_if_asked
from sluice.simulator.division import Division
from sluice.simulator.taps import OUTCOMES, PHASES, Columns, SimulationProgress, Taps, ThresholdsMoved

REASONS = {"killed": "quenched", "unfinished": "unfinished at the end of the grace period"}

Texts = npt.NDArray[np.str_]


def flow_rows(
    columns: Mapping[str, Any],
    topology: Topology,
    run_id: str,
    *,
    size_scale: float,
    schemes: Texts,
    controls: Texts,
    measure_from_s: float = 0.0,
) -> pa.Table:
    """Return the flows that have ended as rows of flows.parquet, from the fabric's columns and the schedule.

    `schemes` and `controls` hold each flow's scheme and TCP_CONGESTION name. Flows that start before `measure_from_s`
    are the run's warm-up.
    """
    finished = columns["outcome"] == OUTCOMES.index("finished")
    endless = ~np.isnan(columns["until_s"])
    fct_us = np.where(finished, columns["fct_ps"] / PS_PER_US, np.nan)
    fct_us = np.where(endless, columns["fct_ps"] / PS_PER_US, fct_us)
    ideal_us = np.where(endless, np.nan, columns["ideal_us"])
    deadline_us = np.where(endless, np.nan, columns["deadline_us"])
    size_bytes = np.where(endless, columns["delivered_bytes"], columns["bytes"])
    measured = np.where(columns["start_s"] < measure_from_s, WARM_UP, SCHEDULED)
    hosts = np.asarray([host.name for host in topology.hosts])
    return pa.table(
        {
            "id": [f"{run_id}/{number}" for number in columns["number"]],
            "src": hosts[columns["src"]],
            "dst": hosts[columns["dst"]],
            "bytes": size_bytes,
            "size_class": np.asarray(SIZE_CLASSES)[size_classes(size_bytes, size_scale)],
            "started_at": columns["start_s"],
            "fct_us": pa.array(fct_us, from_pandas=True),
            "ideal_us": pa.array(ideal_us, from_pandas=True),
            "deadline_us": pa.array(deadline_us, from_pandas=True),
            "met": pa.array(fct_us <= deadline_us, mask=np.isnan(deadline_us)),
            "retransmissions": columns["retransmissions"].astype(np.int64),
            "congestion_control": controls,
            "scheme": schemes,
            "status": np.where(finished | endless, FINISHED, UNFINISHED),
            "reason": np.asarray([REASONS.get(name, "") for name in OUTCOMES])[columns["outcome"]],
            "source": np.where(endless, BACKGROUND, measured),
            "timeouts": columns["timeouts"].astype(np.int64),
            "slowdown": pa.array(fct_us / ideal_us, from_pandas=True),
        },
        schema=bundle.FLOWS_SCHEMA,
    )


def control_names(own: Texts, of_policy: Texts) -> Texts:
    """Return each flow's TCP_CONGESTION name. `own`: the names of the flows' own controls; empty: the policy's."""
    known = {name: control.kernel_name for name, control in controls.selectable().items()}
    return np.asarray(
        [known.get(name, other) for name, other in zip(own.tolist(), of_policy.tolist(), strict=True)]
    )


def records(rows: pa.Table) -> list[FlowRecord]:
    """Return rows of flows.parquet as records, as agents deliver them."""
    return [FlowRecord(**row) for row in rows.drop_columns(["slowdown"]).to_pylist()]


# ── The run ──────────────────────────────────────────────────────────────────────────────────────────


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
    total, until_s = flow_count(scenario), scenario.simulator.until_s
    labels: dict[int, str] = {}
    timeouts, figures = 0, RunningFigures()

    def add_flows(columns: Columns) -> None:
        nonlocal timeouts
        timeouts += int(columns["timeouts"].sum())
        count, policy = len(columns["number"]), scenario.policy
        rows = flow_rows(
            columns,
            topology,
            run_id,
            size_scale=scenario.size_scale,
            measure_from_s=scenario.simulator.measure_from_s,
            schemes=np.full(count, policy.scheme),
            controls=control_names(columns["control"], np.full(count, policy.definition.congestion_control)),
        )
        paths = simulation.paths(columns)
        writer.add_flows(rows, paths and pa.ListArray.from_arrays(paths["begin"], pa.array(paths["port"])))
        if labels:
            writer.add_labels([labels.pop(number, "") for number in columns["number"].tolist()], rows)
        figures.add(bundle.row_figures(rows))

    def add_thresholds(moved: ThresholdsMoved) -> None:
        row = {
            "at": moved.at_s,
            "port": moved.port,
            "policy_version": 1,
            "thresholds_bytes": list(moved.thresholds_bytes),
            "flows": moved.flows,
        }
        writer.add_thresholds([row])

    def report_flows(progress: SimulationProgress) -> None:
        """The time left follows from how fast flows have ended so far, or the time of `until` comes nearer."""
        places: list[tuple[float, float]] = [(progress.ended, total)]
        if until_s is not None:
            places.append((progress.simulated_s, until_s))
        elapsed, expected = max(places, key=lambda place: place[0] / place[1])
        report(Progress(elapsed, expected, progress.ended, total, figures))
        end_if_asked()

    taps = Taps(
        flows=add_flows,
        thresholds=add_thresholds,
        senders=lambda at_s, columns: writer.add_samples(_sample_rows(at_s, columns, run_id, labels)),
        ports=lambda at_s, columns: writer.add_port_samples(at_s, columns),
        trace=lambda columns: writer.add_trace(
            pa.table(columns | {"flow": np.char.add(f"{run_id}/", columns["flow"].astype(str))})
        ),
        report=report_flows,
    )
    simulation = Simulation(scenario, topology, taps, labels, division)
    with bundle.BundleWriter(
        out, scenario=document, policies=[bundle.policy_row(1, scenario.policy)]
    ) as writer:
        interruption = ""
        try:
            simulation.run()
        except KeyboardInterrupt as signal:
            interruption = f"interrupted by {signal or 'SIGINT'}; only the flows that had ended are in it"
        meta = {
            **bundle.machine_meta(scenario.seed),
            "run_id": run_id,
            "on": SIMULATOR,
            "start_at": 0.0,
            "tcp": {"retransmission_timeouts": timeouts},
            bundle.INTERRUPTED: bool(interruption),
            **simulation.totals(),
        }
        summary = writer.finish(
            meta=meta,
            validity_reasons=[interruption] if interruption else [],
            drops=simulation.drops(),
        )
    if interruption:
        raise bundle.Interrupted(f"{interruption}; the bundle so far is in {out}")
    return summary


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
