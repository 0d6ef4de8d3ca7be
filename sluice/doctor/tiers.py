# SPDX-License-Identifier: Apache-2.0
"""Which variant of each feature this machine uses, concluded from the checks.

A feature that is missing is no failed check: another tier takes its place, and a run says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sluice.dataplane.link_queues import QdiscKind
from sluice.dataplane.loader import LINKS_SINCE
from sluice.doctor import check
from sluice.doctor.check import Check
from sluice.doctor.kernel import Kernel
from sluice.policy.controls import LAST_RESORT, ours


class Tier(NamedTuple):
    """The variant of a feature that is active."""

    feature: str
    active: str


def active_tiers(
    found: Sequence[Check], kernel: Kernel, netem: bool, controls: Sequence[str], link: QdiscKind | None
) -> list[Tier]:
    """Return the active tier of each feature.

    `controls`: congestion controls that the kernel offers. `link`: the qdisc of the hosts' own links.
    """
    ok = {finding.name for finding in found if finding.ok}
    return [
        Tier("congestion control", _control(ok, kernel, controls)),
        Tier("switches", _switches(found)),
        Tier("flow queues", "yes" if check.PORT_PROGRAM in ok else "no: the port program does not load"),
        Tier("hosts' own links", f"{link.name}: {link.promise}" if link else "one queue"),
        Tier("link delays", _delays(kernel, netem)),
        Tier("deadlines", _deadlines(ok)),
        Tier("flow watch", "every TCP connection" if check.WATCH in ok else "only scheduled flows"),
    ]


def _control(ok: set[str], kernel: Kernel, controls: Sequence[str]) -> str:
    missing = [control for control in ours() if check.struct_ops(control.kernel_name) not in ok]
    if not missing:
        if kernel.version >= LINKS_SINCE:
            return "Sluice's own, in BPF; each ends with its process"
        return "Sluice's own, in BPF; a killed agent leaves its control registered"
    usable = {*controls, *(name.removeprefix("tcp_") for name in kernel.modules if name.startswith("tcp_"))}
    instead = {c.fallback if c.fallback in usable else LAST_RESORT for c in missing}
    text = f"the kernel's own {' and '.join(sorted(instead))} for {', '.join(c.kernel_name for c in missing)}"
    return f"{text}; such runs are marked as not valid"


def _switches(found: Sequence[Check]) -> str:
    detail = next((finding.detail for finding in found if finding.name == check.DATAPATHS), "")
    if detail.startswith("kernel"):
        return "Open vSwitch's kernel datapath"
    return "Open vSwitch's userspace datapath"


def _delays(kernel: Kernel, netem: bool) -> str:
    if netem:
        return "netem"
    return f"none beyond a hop's own: no netem here ({kernel.qdisc_remedy('sch_netem')})"


def _deadlines(ok: set[str]) -> str:
    if check.HOOK in ok:
        return "programs and agents declare flows by the setsockopt hook"
    return "none: no one can declare a flow, and runs with deadlines are marked as not valid"
