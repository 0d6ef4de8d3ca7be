# SPDX-License-Identifier: Apache-2.0
"""One scenario on the testbed, from the schedule to the bundle.

The hosts' TCP counters about loss show whether the network or the stack caused a long tail.
"""

import json
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy.exc import SQLAlchemyError

from sluice.hostagent.records import unfinished
from sluice.policy.fabrics import TESTBED, check_fabric
from sluice.policy.figures.metrics import FlowFigures
from sluice.policy.wire.records import BACKGROUND, SCHEDULED, WATCHED, FlowRecord, ScheduledFlow
from sluice.policy.workload.scenario import Scenario, scheduled_flows
from sluice.runs.bundle import INTERRUPTED, BundleWriter, Interrupted, by_time, machine_meta, policy_rows
from sluice.runs.files import Resolved
from sluice.runs.progress import Progress, Report, RunningFigures
from sluice.runs.stack import START_LEAD_S, Stack
from sluice.runtime.lifecycle import end_if_asked
from sluice.store import observed
from sluice.store.flows import numbered_pages
from sluice.topologies.testbed import Testbed

COUNTERS = {
    "TcpRetransSegs": "retransmitted_segments",
    "TcpExtTCPTimeouts": "retransmission_timeouts",
    "TcpExtTCPLossProbes": "tail_loss_probes",
    "TcpExtTCPFastRetrans": "fast_retransmissions",
    "TcpExtTCPDSACKRecv": "needless_retransmissions",
    "TcpExtTCPDeliveredCE": "packets_delivered_with_ce",
    "TcpExtTCPSynRetrans": "syn_retransmissions",
}
"""Kernel counter → its meaning. The receiver of an unnecessary retransmission reported it as a duplicate."""


def tcp_counters(bed: Testbed) -> dict[str, int]:
    """Return sums over all hosts since the testbed started."""
    total = dict.fromkeys(COUNTERS.values(), 0)
    for host in bed.topology.hosts:
        kernel = json.loads(bed.exec(host.name, ["nstat", "-a", "-s", "-z", "-j"]))["kernel"]
        for counter, name in COUNTERS.items():
            total[name] += kernel.get(counter, 0)
    return total


CHECK_S = 0.2
FIGURES_S = 2.0
UNREPORTED = "no record was delivered"


def run_on_testbed(
    resolved: Resolved,
    out: Path,
    report: Report = lambda progress: None,
    store: str | None = None,
    event_log: Path | None = None,
    beside: Callable[[Stack], AbstractContextManager[object]] = lambda stack: nullcontext(),
) -> dict[str, Any]:
    """Run a scenario on real switches and real TCP and write its bundle. Returns the summary.

    `store` is the URL of a store that outlives the run. `event_log` is a file that gets each event
    as a line of JSON. `beside` is open while flows run: an experiment can disturb the run there.
    An interrupted run writes a bundle that says so, and raises Interrupted.
    """
    scenario, document, topology = resolved
    check_fabric(scenario.policy, TESTBED)
    run_id = f"{scenario.name}-{scenario.seed}-{int(time.time())}"
    flows = scheduled_flows(scenario, topology, np.random.default_rng(scenario.seed), run_id)
    # The store and the summary of an earlier run must not pass for this run's.
    (out / "summary.json").unlink(missing_ok=True)
    shutil.rmtree(out / "run", ignore_errors=True)
    web = ["--event-log", str(event_log)] if event_log else []
    with Stack.start(scenario, topology, out / "run", store=store, web=web) as stack:
        watch = stack.watch
        background = stack.start_background()
        tcp_before = tcp_counters(stack.testbed)
        stack.prepare_agents(flows)
        interruption = ""
        with watch, beside(stack):  # from before the first flow on, because the first readings take time
            start_at = time.time() + START_LEAD_S
            try:
                stack.start_traffic(start_at)
                follow(stack, flows, start_at, report)
            except KeyboardInterrupt as signal:
                interruption = (
                    f"interrupted by {signal or 'SIGINT'} {time.time() - start_at:.0f} s after the first flow"
                )
            stack.reserve.release()  # the last measurements need some room, too
        background_bps = {f"{b.load.source}-{b.load.to}": b.rate_bps() for b in background}
        stack.stop_agents()
        reasons = [*watch.reasons(), *stack.host_delays.reasons(), *fallback_reasons(stack)]
        records = complete(stack.records() + stack.records(BACKGROUND), flows, scenario, start_at)
        meta = {
            **machine_meta(scenario.seed),
            "run_id": run_id,
            "start_at": start_at,
            "cpu": watch.summary() | stack.host_delays.summary(),
            "tcp": {name: now - tcp_before[name] for name, now in tcp_counters(stack.testbed).items()},
            "background_bps": background_bps,
            INTERRUPTED: bool(interruption),
        }
        versions = stack.policies()
        lived = by_time(versions)
        with BundleWriter(out, scenario=document, policies=policy_rows(versions), version_of=lived) as bundle:
            bundle.add_records(records)
            bundle.add_thresholds(map(vars, stack.thresholds()))
            bundle.add_queues(map(vars, stack.samples()))
            flow_samples = stack.flow_samples()
            if flow_samples is not None:
                bundle.add_samples(flow_samples)
            summary = bundle.finish(
                meta=meta,
                validity_reasons=[interruption, *reasons] if interruption else reasons,
                remarks=watch.remarks(),
                watched=stack.records(WATCHED),
            )
    if interruption:
        raise Interrupted(f"{interruption}; the bundle so far is in {out}")
    return summary


def follow(stack: Stack, flows: list[ScheduledFlow], start_at: float, report: Report) -> None:
    """Wait until every flow is recorded, or until the grace period after the last start ends."""
    last_s = max((flow.until_s or flow.start_s for flow in flows), default=0.0)
    recorded, begin_s = 0, time.monotonic() + start_at - time.time()  # the wall clock may step
    figures = _RecordedFigures(stack)
    while True:
        stack.check()
        with suppress(SQLAlchemyError):  # the disk of the store is full
            recorded = stack.recorded() + stack.recorded(BACKGROUND)
        elapsed_s = time.monotonic() - begin_s
        report(Progress(elapsed_s, last_s, recorded, len(flows), figures.now()))
        end_if_asked()
        if recorded >= len(flows) or elapsed_s > last_s + stack.scenario.grace_s:
            return
        time.sleep(CHECK_S)


class _RecordedFigures:
    """The figures of the records in the store. Reading them costs CPU time, so this happens every two seconds."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._figures = RunningFigures()
        self._read_s, self._after = time.monotonic(), stack.began_after

    def now(self) -> RunningFigures:
        if time.monotonic() >= self._read_s + FIGURES_S:
            self._read_s = time.monotonic()
            with suppress(SQLAlchemyError):
                for after, records in numbered_pages(self._stack.engine, SCHEDULED, self._after):
                    self._figures.add(FlowFigures.of(records))
                    self._after = after
        return self._figures


def fallback_reasons(stack: Stack) -> list[str]:
    """Return what hosts could not do for the scheme: its congestion control, its tags, declaring
    flows to the kernel."""
    beats = observed.host_heartbeats(stack.engine)
    undeclared = [name for name, beat in beats.items() if beat.flows_undeclared]
    fallen = [name for name, beat in beats.items() if beat.fallback]
    reasons = [f"flows could not be declared to the kernel on {', '.join(undeclared)}"] if undeclared else []
    dropping = [f"{name} ({beat.records_dropped})" for name, beat in beats.items() if beat.records_dropped]
    if dropping:
        reasons.append(f"records were dropped for want of disk space on {', '.join(dropping)}")
    fifos = [f"{name} ({beat.link_problem})" for name, beat in beats.items() if beat.link_problem]
    if fifos and stack.scenario.policy.host_queues:
        reasons.append(f"the host's own link is one queue on {', '.join(fifos)}")
    if fallen:
        reasons.append(f"no {stack.scenario.policy.definition.congestion_control} on {', '.join(fallen)}")
    return reasons


def complete(
    records: list[FlowRecord], flows: list[ScheduledFlow], scenario: Scenario, start_at: float
) -> list[FlowRecord]:
    """Return one record for every scheduled flow. A flow that no agent reported counts as unfinished.

    `start_at` is the epoch second of the schedule's start.
    """
    reported = {record.id for record in records}
    missing = [
        unfinished(
            flow,
            UNREPORTED,
            started_at=start_at + flow.start_s,
            scheme=scenario.policy.scheme,
            congestion_control=scenario.policy.definition.congestion_control,
        )
        for flow in flows
        if flow.id not in reported
    ]
    return sorted([*records, *missing], key=lambda record: record.started_at)
