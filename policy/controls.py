# SPDX-License-Identifier: Apache-2.0
"""The congestion controls, one record each. Agents, simulator and generated C headers take them from here.

To add a control, add a law in dataplane/laws/, ten lines in dataplane/bpf/cc_NAME.bpf.c, and one record here. A
control may also come from a file outside the tree (`runtime/control_files.py`).

A control has needs of a fabric in addition to eight strict priorities and marking; so have queue rules.
`policy/fabrics.py` says what each fabric offers.
"""

from dataclasses import dataclass
from enum import StrEnum


class Need(StrEnum):
    """One need. Its value is the wording in a refusal."""

    FLOW_QUEUES = "flow queues"
    RESERVED_DSCP = "reserved DSCPs"
    SHORTEST_FIRST = "queues that serve the shortest remaining flow first"
    EXPLICIT_RATES = "explicit rates from the switches"
    TELEMETRY = "telemetry of each hop in data packets"
    GRANTS = "receivers that grant, and hosts that send the shortest message first"


PREFIX = "sluice_"
"""Kernel names of this project's controls start with it."""


class Echo(StrEnum):
    """How a receiver reports ECN marks to its sender."""

    EXACT = "exact"
    """It reports the mark of each packet (DCTCP, RFC 8257)."""
    STANDARD = "standard"
    """It reports a mark until the sender has reduced its window (RFC 3168)."""


@dataclass(frozen=True)
class Parameter:
    """A number of 32 bits that a control reads and that a scenario may set. Its name has its unit."""

    name: str
    default: int
    help: str


PARAMETERS_MAX = 16
"""The most parameters of a control from a file (dataplane/laws/hooks.h)."""


@dataclass(frozen=True)
class Control:
    """One congestion control."""

    name: str
    """Name of the law, of the BPF program cc_NAME and of the control in the simulator."""
    kernel_name: str
    """TCP_CONGESTION name that agents select. For a control of the simulator alone: its name in records."""
    echo: Echo
    fallback: str
    """The kernel's own control that agents use, and report, if the kernel lacks BPF struct_ops."""
    needs: Need | None = None
    """What the control needs from the fabric."""
    of_window: bool = False
    """Its law is a function of one window's record, `sl_control_NAME(record)` in dataplane/laws/control.h. So its
    window grows by as many packets as the policy says."""
    file: str = ""
    """The path of its file, if it is none of the tree."""
    parameters: tuple[Parameter, ...] = ()
    """What scenarios may set; of a control from a file, in the file's order."""
    reads_marks: bool = True
    """Its packets ask for marks (ECN)."""
    wants_ramp: bool = False
    """Its scheme marks by chance between two thresholds, if it comes from a file."""

    @property
    def is_ours(self) -> bool:
        """This project loads the control into the kernel, as a BPF program."""
        return self.kernel_name.startswith(PREFIX)

    def __str__(self) -> str:
        return self.kernel_name


DCTCP = Control("dctcp", "sluice_dctcp", Echo.EXACT, fallback="dctcp", of_window=True)
UCP = Control("ucp", "sluice_ucp", Echo.EXACT, fallback="dctcp", of_window=True)
D2TCP = Control("d2tcp", "sluice_d2tcp", Echo.EXACT, fallback="dctcp", of_window=True)
# A DATCP flow of precedence 1 adds one packet in each window and halves its window on an echo.
# That is Reno, which every kernel has.
DATCP = Control("datcp", "sluice_datcp", Echo.STANDARD, fallback="reno")
MCP = Control("mcp", "sluice_mcp", Echo.EXACT, fallback="dctcp", of_window=True)
RENO = Control("reno", "reno", Echo.STANDARD, fallback="reno")
CUBIC = Control("cubic", "cubic", Echo.STANDARD, fallback="cubic")
PFABRIC = Control("pfabric", "pfabric", Echo.EXACT, fallback="reno", needs=Need.SHORTEST_FIRST)
D3 = Control("d3", "d3", Echo.EXACT, fallback="reno", needs=Need.EXPLICIT_RATES)
HOMA = Control(
    "homa",
    "homa",
    Echo.EXACT,
    fallback="reno",
    needs=Need.GRANTS,
    parameters=(
        Parameter(
            "round_trip_bytes",
            9700,
            "what a host's link carries in a round trip: sent without a grant, and granted beyond what has arrived",
        ),
        Parameter(
            "unscheduled_levels", 0, "levels of priority for what is sent without a grant; 0: by the sizes"
        ),
    ),
    reads_marks=False,
)
PDQ = Control("pdq", "pdq", Echo.EXACT, fallback="reno", needs=Need.EXPLICIT_RATES)

CONTROLS = (DCTCP, UCP, D2TCP, DATCP, MCP, RENO, CUBIC, PFABRIC, D3, HOMA, PDQ)
"""In the order of the simulator's enumeration of controls."""

LAST_RESORT = CUBIC.kernel_name
"""The control that agents try if a control and its fallback are both missing."""


FROM_FILES: dict[str, Control] = {}
"""Name → control, of those from files."""


def known() -> tuple[Control, ...]:
    """All controls: of the tree, and from files."""
    return (*CONTROLS, *FROM_FILES.values())


def selectable() -> dict[str, Control]:
    """Name → control, of those that a part of a workload may have: they need nothing from the fabric."""
    return {control.name: control for control in known() if control.needs is None}


def ours() -> tuple[Control, ...]:
    """The controls of the tree that this project loads into the kernel."""
    return tuple(control for control in CONTROLS if control.is_ours)


def c_header() -> str:
    """The C header of the records: lists of names."""
    lines = [
        "/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */",
        "/* Generated from policy/controls.py by `make gen`: change that file, not this one. */",
        "#ifndef SLUICE_CONTROLS_GEN_H",
        "#define SLUICE_CONTROLS_GEN_H",
        "",
        "/* X(name) for each congestion control. */",
        "#define SL_CONTROLS(X) " + " ".join(f"X({control.name})" for control in CONTROLS),
        "",
        "/* X(name) for each control whose law is sl_control_NAME(record) in control.h. */",
        "#define SL_WINDOW_LAWS(X) "
        + " ".join(f"X({control.name})" for control in CONTROLS if control.of_window),
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def fallback_of(kernel_name: str) -> str:
    """The kernel's own control to use instead of this one; LAST_RESORT for an unknown name."""
    fallbacks = {control.kernel_name: control.fallback for control in known()}
    return fallbacks.get(kernel_name, LAST_RESORT)
