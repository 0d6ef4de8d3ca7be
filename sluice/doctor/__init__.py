# SPDX-License-Identifier: Apache-2.0
"""What this machine can do. Every check names a remedy that fits the running kernel."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from sluice.dataplane import link_queues
from sluice.dataplane.congestion import available
from sluice.doctor import kernel, tiers
from sluice.doctor.check import Check, guarded
from sluice.doctor.installed import (
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
)
from sluice.doctor.kernel import Kernel
from sluice.doctor.tiers import Tier
from sluice.topologies import qdiscs


def checks(*, measure: bool = True) -> Iterator[Check]:
    """Yield each check when it is done. `measure` adds the checks that start a testbed (about 15 s).

    No error of a check ends the others.
    """
    here = kernel.running()
    yield check_root()
    yield from guarded("tools", lambda: check_tools(here))
    yield check_btf(here)
    yield from guarded("TCP congestion controls", lambda: [check_congestion_controls(here)])
    if os.geteuid() != 0:
        return
    yield from _checks_of_root(here)
    if measure:
        yield from guarded("testbed", _measured)


def active_tiers(found: Sequence[Check]) -> list[Tier]:
    """Return the active tier of each feature, concluded from the checks. Needs root."""
    netem, link = qdiscs.has_netem(), link_queues.first_kind()
    return tiers.active_tiers(found, kernel.running(), netem, _offered(), link)


def _offered() -> list[str]:
    """Return the congestion controls that the kernel offers; none if /proc/sys is hidden."""
    try:
        return available()
    except OSError:
        return []


def _checks_of_root(here: Kernel) -> Iterator[Check]:
    yield check_capabilities(here)
    yield from guarded("qdiscs", lambda: check_qdiscs(here))
    yield from guarded("tun", lambda: [check_tun(here)])
    yield from guarded("BPF programs", lambda: [check_port_program(here)])
    yield from guarded("struct_ops", lambda: check_struct_ops(here))
    yield from guarded("setsockopt hook", lambda: [check_socket_hook(here)])
    yield from guarded("flow watch", lambda: [check_watch(here)])
    yield from guarded("Open vSwitch datapaths", lambda: [check_datapaths()])


def _measured() -> Iterable[Check]:
    """Return the checks on a testbed. Without Mininet, the import fails, and the doctor must still start."""
    from sluice.doctor.measured import measured_checks

    return measured_checks()
