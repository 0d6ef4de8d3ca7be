# SPDX-License-Identifier: Apache-2.0
"""Whether the kernel can make a qdisc. The attempt loads its module, if there is one."""

from __future__ import annotations

import subprocess

from sluice.runtime.command import CommandFailed, run

_DELAYED = """qdisc add dev lo root netem delay 1ms
qdisc add dev lo clsact
filter add dev lo ingress protocol all prio 1 matchall action mirred egress redirect dev lo
"""


def try_qdisc(arguments: str) -> str:
    """Make a qdisc in a network namespace of its own. Raises CommandFailed with tc's reason."""
    run(["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", *arguments.split()])
    return "can be made"


def has_netem() -> bool:
    """Return whether the kernel can delay packets, as topologies/commands.py does."""
    try:
        run(["unshare", "--net", "tc", "-batch", "-"], stdin=_DELAYED)
    except (CommandFailed, OSError, subprocess.SubprocessError):
        return False
    return True
