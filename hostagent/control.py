# SPDX-License-Identifier: Apache-2.0
"""The congestion control of a host: registered, and the default of the network namespace."""

import logging
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sluice.dataplane import congestion
from sluice.dataplane.congestion import DEFAULT_CONTROL, ControlSettings
from sluice.hostagent import tcp
from sluice.hostagent.routes import FabricRoutes
from sluice.policy.controls import LAST_RESORT, PREFIX, fallback_of
from sluice.policy.errors import EnvironmentLacking

log = logging.getLogger(__name__)

_DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")
"""Belongs to the network namespace of the process that opens it."""


class HostControl:
    """Selects the congestion control of the namespace's new connections.

    If the requested control is not available, it selects a fallback and keeps the reason.
    """

    def __init__(self, use_bpf: bool = True, routes: FabricRoutes | None = None) -> None:
        """`routes`: where connections get the control. None: all of the namespace's do."""
        self._use_bpf, self._routes = use_bpf, routes
        self._registered: congestion.CongestionControl | None = None
        self._entry: congestion.HostEntry | None = None
        self._written: tuple[ControlSettings, ControlSettings | None] | None = None
        """What the entry holds, and that of other namespaces. None: unknown, as after a killed agent."""
        self._before = _DEFAULT.read_text().strip()
        self.requested: str | None = None
        self.in_force: str = self._before
        self.default: str = self._before
        """The namespace's default: `in_force`, or reno if the kernel does not allow that one as a default."""
        self.fallback_reason = ""
        """Why `in_force` is not the requested control; empty if it is."""

    def begin(self) -> None:
        """Let programs of this namespace declare flows. Without BPF, nothing happens."""
        with suppress(EnvironmentLacking):
            self._write(replace(DEFAULT_CONTROL, without_ecn=self.own))

    def use(self, name: str, settings: ControlSettings = DEFAULT_CONTROL, *, is_tagged: bool = True) -> None:
        """Register the control if no process has, and make it the namespace's default.

        `settings` are for controls of Sluice. Where a tagger sees the packets (`is_tagged`), the sockets of this
        namespace carry no tags. Call it regularly: a registration ends with the process that holds it.
        """
        if name != self.requested:
            self._release()
            self.requested = name
        self.in_force = self._provide(name, settings, is_tagged)
        if self._routes is not None:
            self._use_on_routes(self._routes)
            return
        default = _set_default(self.in_force)
        if default != self.in_force and default != self.default:
            log.warning(
                "%s cannot be the default of this network namespace, so %s is: "
                "add it to net.ipv4.tcp_allowed_congestion_control of the machine",
                name,
                default,
            )
        self.default = default

    def _use_on_routes(self, routes: FabricRoutes) -> None:
        """Let connections to the fabric have the control in force, and all others the machine's."""
        self.default = _set_default(self.own)  # an agent without these routes may have been killed
        if self.in_force == self.own:
            routes.restore()
        else:
            routes.use(self.in_force)

    @property
    def problem(self) -> str:
        """Why not all connections have the control that they should have; empty if they do."""
        return self.fallback_reason or (self._routes.problem if self._routes else "")

    @property
    def own(self) -> str:
        """The default before this agent. One of Sluice's was left by a killed agent, so LAST_RESORT replaces it."""
        return LAST_RESORT if self._before.startswith(PREFIX) else self._before

    def restore(self) -> None:
        """Restore the namespace's default, and its routes."""
        _set_default(self.own)
        if self._routes is not None:
            self._routes.restore()
        self._release()
        if self._entry is not None:
            self._entry.forget()
            self._entry.close()
        self._entry, self._written = None, None

    def _release(self) -> None:
        if self._registered is not None:
            self._registered.close()
            self._registered = None

    def _provide(self, name: str, settings: ControlSettings, is_tagged: bool) -> str:
        """Register the control and write the settings of this machine's sockets. Returns it, or a fallback."""
        try:
            self._require(name)
            if name.startswith(PREFIX):
                where_all = "" if self._routes else name  # listeners elsewhere keep theirs
                others = replace(settings, control=where_all, without_ecn=self.own)
                self._write(replace(others, tags=congestion.NO_TAGS) if is_tagged else others, others)
            else:
                self.begin()
        except EnvironmentLacking as lacking:
            if str(lacking) != self.fallback_reason:
                log.warning("congestion control %s is not available: %s", name, lacking)
            self.fallback_reason = str(lacking)
            return next((other for other in (fallback_of(name), LAST_RESORT) if _usable(other)), "reno")
        self.fallback_reason = ""
        return name

    def _write(self, own: ControlSettings, others: ControlSettings | None = None) -> None:
        """Write the settings of this namespace's sockets, and of those in namespaces without an agent."""
        if self._use_bpf and (own, others) != self._written:
            self._entry = self._entry or congestion.HostEntry()
            self._entry.set(own, others)
            self._written = own, others

    def _require(self, name: str) -> None:
        if name.startswith(PREFIX):
            if not self._use_bpf:
                raise EnvironmentLacking("BPF is switched off (--no-bpf)")
            if self._registered is None:
                self._registered = congestion.CongestionControl(name)
                self._registered.ensure()
            elif name not in congestion.available():  # the agent that registered it has ended
                self._registered.ensure()
        elif not _usable(name):
            raise EnvironmentLacking(
                f"the kernel has no congestion control {name}: modprobe tcp_{name}, or choose another scheme"
            )


def _usable(name: str) -> bool:
    """Whether a socket can select the control. The attempt makes the kernel load the module, if there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            tcp.set_congestion_control(probe, name)
        except OSError:
            return False
    return True


def _set_default(name: str) -> str:
    """Make the control the namespace's default, or reno if the kernel refuses. Returns the default after that.

    In a namespace, only an unrestricted control can be the default. Sluice's controls and reno are
    unrestricted. The kernel's others are, if the machine's net.ipv4.tcp_allowed_congestion_control lists
    them. A process of root, such as the agent, can select any control on its own sockets.
    """
    for candidate in (name, "reno"):
        if _DEFAULT.read_text().strip() == candidate:
            return candidate
        try:
            _DEFAULT.write_text(candidate)
            return candidate
        except PermissionError:
            continue
        except FileNotFoundError:
            break  # the process that registered it ended a moment ago; the next heartbeat registers it again
        except OSError as error:
            raise EnvironmentLacking(
                f"{_DEFAULT}: cannot make {candidate} the default congestion control ({error.strerror}): "
                "run the agent as root"
            ) from None
    return _DEFAULT.read_text().strip()
