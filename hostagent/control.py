# SPDX-License-Identifier: Apache-2.0
"""The congestion control of a host: registered, the default of its network namespace, or a fallback that says so."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

from dataplane.congestion import CongestionControl, available
from hostagent import tcp
from policy.controls import LAST_RESORT, PREFIX, fallback_of
from policy.errors import EnvironmentLacking

log = logging.getLogger(__name__)

_DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")
"""Of the network namespace of whoever opens it."""


class HostControl:
    """Sees to it that the wanted control, or the best there is, is in force for new connections of the namespace."""

    def __init__(self, use_bpf: bool = True) -> None:
        self._use_bpf = use_bpf
        self._registered: CongestionControl | None = None
        self._before = _DEFAULT.read_text().strip()
        self.wanted: str | None = None
        self.in_force: str = self._before
        self.default: str = self._before
        """The namespace's default: `in_force`, or the nearest that the kernel allows as a default."""
        self.fallback_reason = ""
        """Why `in_force` is not what was wanted; empty when it is."""

    def want(self, name: str) -> None:
        """Register `name` if need be and make it the default; also when its registration has gone meanwhile."""
        if name != self.wanted:
            self._release()
            self.wanted = name
        self.in_force = self._provide(name)
        default = _set_default(self.in_force)
        if default != self.in_force and default != self.default:
            log.warning(
                "%s cannot be the default here, %s is: see tcp_allowed_congestion_control", name, default
            )
        self.default = default

    def restore(self) -> None:
        """Leave the namespace as it was found. A default of ours was left by a killed agent: that goes too."""
        _set_default(LAST_RESORT if self._before.startswith(PREFIX) else self._before)
        self._release()

    def _release(self) -> None:
        if self._registered is not None:
            self._registered.close()
            self._registered = None

    def _provide(self, name: str) -> str:
        try:
            self._require(name)
        except EnvironmentLacking as lacking:
            return self._fall_back(name, str(lacking))
        self.fallback_reason = ""
        return name

    def _require(self, name: str) -> None:
        if name.startswith(PREFIX):
            if not self._use_bpf:
                raise EnvironmentLacking("BPF is switched off")
            if self._registered is None:
                self._registered = CongestionControl(name)
                self._registered.ensure()
            elif name not in available():  # another agent had registered it, and has ended
                self._registered.ensure()
        elif not _usable(name):
            raise EnvironmentLacking(f"the kernel has no congestion control {name}")

    def _fall_back(self, name: str, reason: str) -> str:
        if reason != self.fallback_reason:
            log.warning("no %s: %s", name, reason)
        self.fallback_reason = reason
        return next((other for other in (fallback_of(name), LAST_RESORT) if _usable(other)), "reno")


def _usable(name: str) -> bool:
    """Asking for it on a socket makes the kernel load the module, if there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            tcp.set_congestion_control(probe, name)
        except OSError:
            return False
    return True


def _set_default(name: str) -> str:
    """Make `name` the namespace's default if it may be; what the default is then.

    In a namespace only a control without restriction can be the default: ours are, the kernel's own are when
    net.ipv4.tcp_allowed_congestion_control of the machine lists them, reno always is. The agent's own flows and
    anything else run by root select their control on the socket, for which there is no such limit.
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
            break  # the process that had registered it ended just now; the next heartbeat registers it again
        except OSError as error:
            raise EnvironmentLacking(
                f"cannot make {candidate} the default congestion control here: {error.strerror}"
            ) from None
    return _DEFAULT.read_text().strip()
