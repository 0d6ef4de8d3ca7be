# SPDX-License-Identifier: Apache-2.0
"""What this machine can do. Every check names its remedy."""

from __future__ import annotations

from collections.abc import Iterator

from topologies.doctor.check import Check
from topologies.doctor.installed import (
    check_btf,
    check_congestion_controls,
    check_datapaths,
    check_port_program,
    check_root,
    check_socket_hook,
    check_struct_ops,
    check_tools,
)
from topologies.doctor.measured import measured_checks


def checks(*, measure: bool = True) -> Iterator[Check]:
    """Yield each check when it is done. `measure` adds the checks that start a testbed (about 15 s)."""
    root = check_root()
    yield root
    yield from check_tools()
    yield check_btf()
    yield check_congestion_controls()
    if not root.ok:
        return
    yield check_port_program()
    yield from check_struct_ops()
    yield check_socket_hook()
    yield check_datapaths()
    if measure:
        yield from measured_checks()
