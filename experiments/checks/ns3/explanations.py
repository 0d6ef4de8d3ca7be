# SPDX-License-Identifier: Apache-2.0
"""Known reasons for differences between the simulators."""

from __future__ import annotations

from experiments.checks.ns3.compare import Figure

_RECOVERY = (
    "a lost packet's second copy may find no room, which depends on the time of its retransmission. "
    "To ns-3 a packet is lost when three beyond it were selectively acknowledged, "
    "and when a packet that was retransmitted later has arrived"
)
_WHILE_MARKED = (
    "a loss does not begin ns-3's recovery while it reduces a window for marks "
    "(a TODO in TcpSocketBase::ProcessAck)"
)
EXPLANATIONS = {
    "lone": "ns-3 answers the SYN-ACK with an ACK of its own before the data, 66 bytes: 0.0528 us of this link",
    "long-8": "windows have eight packets. Ours are whole packets with cuts rounded to the nearest; ns-3's are bytes. "
    "With cuts rounded down, ours has 4 % more marks",
    "losses-8": f"{_RECOVERY}; with both rules in ours, 95 time out",
    "losses-32": f"{_RECOVERY}; with both rules in ours, 339 time out",
    "marks-and-losses-32": f"{_RECOVERY}; with both rules in ours, 81 time out. And {_WHILE_MARKED}",
    "web-0.5: dropped": _WHILE_MARKED,
    "web-0.5: retransmissions": _WHILE_MARKED,
}
"""Start of a figure's name → why that figure differs."""


def explanation_of(figure: Figure) -> str:
    """Return the known reason; empty if there is none."""
    return next((why for start, why in EXPLANATIONS.items() if figure.what.startswith(start)), "")
