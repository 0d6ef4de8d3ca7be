# SPDX-License-Identifier: Apache-2.0
"""What this machine can do. Every check names a remedy that fits the running kernel.

The tiers say which variant of each feature this machine uses, concluded from the checks. A feature that is missing is
no failed check: another tier takes its place, and a run says so.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sluice.dataplane import link_queues
from sluice.dataplane.congestion import available
from sluice.dataplane.link_queues import QdiscKind
from sluice.dataplane.loader import LINKS_SINCE
from sluice.doctor import kernel as kernel_facts
from sluice.doctor.installed import (
    DATAPATHS,
    HOOK,
    PORT_PROGRAM,
    WATCH,
    Check,
    check_btf,
    check_capabilities,
    check_congestion_controls,
    check_datapaths,
    check_port_program,
    check_qdiscs,
    check_root,
    check_socket_hook,
    check_struct_ops,
    check_tools,
    check_tun,
    check_watch,
    guarded,
    struct_ops,
)
from sluice.doctor.kernel import Kernel
from sluice.policy.controls import LAST_RESORT, ours
from sluice.topologies import qdiscs


class Tier(NamedTuple):
    """The variant of a feature that is active."""

    feature: str
    active: str


def tiers_of(
    findings: Sequence[Check], kernel: Kernel, netem: bool, controls: Sequence[str], link: QdiscKind | None
) -> list[Tier]:
    """Return the active tier of each feature.

    `controls`: congestion controls that the kernel offers. `link`: the qdisc of the hosts' own links.
    """
    ok = {finding.name for finding in findings if finding.ok}
    datapaths = next((finding.detail for finding in findings if finding.name == DATAPATHS), "")
    delays = (
        "netem" if netem else f"none beyond a hop's own: no netem here ({kernel.qdisc_remedy('sch_netem')})"
    )
    return [
        Tier("congestion control", _control(ok, kernel, controls)),
        Tier(
            "switches",
            "Open vSwitch's kernel datapath"
            if datapaths.startswith("kernel")
            else "Open vSwitch's userspace datapath",
        ),
        Tier("flow queues", "yes" if PORT_PROGRAM in ok else "no: the port program does not load"),
        Tier("hosts' own links", f"{link.name}: {link.promise}" if link else "one queue"),
        Tier("link delays", delays),
        Tier(
            "deadlines",
            "programs and agents declare flows by the setsockopt hook"
            if HOOK in ok
            else "none: no one can declare a flow, and runs with deadlines are marked as not valid",
        ),
        Tier("flow watch", "every TCP connection" if WATCH in ok else "only scheduled flows"),
    ]


def _control(ok: set[str], kernel: Kernel, controls: Sequence[str]) -> str:
    missing = [control for control in ours() if struct_ops(control.kernel_name) not in ok]
    if not missing:
        if kernel.version >= LINKS_SINCE:
            return "Sluice's own, in BPF; each ends with its process"
        return "Sluice's own, in BPF; a killed agent leaves its control registered"
    usable = {*controls, *(name.removeprefix("tcp_") for name in kernel.modules if name.startswith("tcp_"))}
    instead = {c.fallback if c.fallback in usable else LAST_RESORT for c in missing}
    text = f"the kernel's own {' and '.join(sorted(instead))} for {', '.join(c.kernel_name for c in missing)}"
    return f"{text}; such runs are marked as not valid"


def checks(*, measure: bool = True) -> Iterator[Check]:
    """Yield each check when it is done. `measure` adds the checks that start a testbed (about 15 s).

    No error of a check ends the others.
    """
    here = kernel_facts.running()
    yield check_root()
    yield from guarded("tools", lambda: check_tools(here))
    yield check_btf(here)
    yield from guarded("TCP congestion controls", lambda: [check_congestion_controls(here)])
    if os.geteuid() != 0:
        return
    yield check_capabilities(here)
    yield from guarded("qdiscs", lambda: check_qdiscs(here))
    yield from guarded("tun", lambda: [check_tun(here)])
    yield from guarded("BPF programs", lambda: [check_port_program(here)])
    yield from guarded("struct_ops", lambda: check_struct_ops(here))
    yield from guarded("setsockopt hook", lambda: [check_socket_hook(here)])
    yield from guarded("flow watch", lambda: [check_watch(here)])
    yield from guarded("Open vSwitch datapaths", lambda: [check_datapaths()])
    if measure:
        yield from guarded("testbed", _measured)


def active_tiers(findings: Sequence[Check]) -> list[Tier]:
    """Return the active tier of each feature, concluded from the checks. Needs root."""
    netem, link = qdiscs.has_netem(), link_queues.first_kind()
    kernel = kernel_facts.running()
    try:
        controls = available()
    except OSError:  # /proc/sys is hidden
        controls = []
    return tiers_of(findings, kernel, netem, controls, link)


def _measured() -> Iterable[Check]:
    """Return the checks on a testbed. Without Mininet, the import fails, and the doctor must still start."""
    from sluice.doctor.measured import measured_checks

    return measured_checks()
