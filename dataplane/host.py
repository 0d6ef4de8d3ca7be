# SPDX-License-Identifier: Apache-2.0
"""What a host's policy says to the congestion controls: the entry of its network namespace (bpf/host.bpf.h)."""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType

from sluice.dataplane.loader import load

_NAMESPACE = Path("/proc/thread-self/ns/net")
_LAYOUT = struct.Struct("=II")


@dataclass(frozen=True)
class ControlSettings:
    """The settings of all connections of a host with a control of Sluice. The defaults are those of the papers."""

    growth: int = 1
    """Packets by which a window without marks grows, for controls that grow as Reno."""
    forgets_late: bool = False
    """Past its deadline, a flow continues as one without a deadline. Otherwise it stays the most urgent."""


DEFAULT_CONTROL = ControlSettings()


class HostEntry:
    """The entry of the network namespace that opens it, a context manager. Other namespaces keep theirs."""

    def __init__(self) -> None:
        """Raises EnvironmentLacking when BPF cannot be used here."""
        self._object = load("cc_dctcp")  # any control: all share the machine's one map
        self._map = self._object.map("sluice_host_1")
        self._namespace = _NAMESPACE.stat().st_ino

    @property
    def settings(self) -> ControlSettings:
        """The settings in force: the defaults without an entry."""
        value = self._map.lookup(self._namespace)
        if value is None:
            return DEFAULT_CONTROL
        growth, forgets_late = _LAYOUT.unpack(value)
        return ControlSettings(growth, bool(forgets_late))

    def set(self, settings: ControlSettings) -> None:
        """Change the settings from each connection's next window on."""
        self._map.update(self._namespace, _LAYOUT.pack(*astuple(settings)))

    def forget(self) -> None:
        """Remove the entry: the defaults hold. Idempotent."""
        self._map.delete(self._namespace)

    def close(self) -> None:
        """Release the map. Idempotent."""
        self._object.close()

    def __enter__(self) -> HostEntry:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
