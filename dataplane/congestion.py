# SPDX-License-Identifier: Apache-2.0
"""Register Sluice's congestion controls with the kernel (BPF struct_ops).

The whole machine has one list of controls for all network namespaces, and several agents and testbeds may run at once.
The first process registers a control, and the others use its registration.

The entry of a network namespace tells the controls what the host's policy says (bpf/host.bpf.h).
"""

from __future__ import annotations

import errno
import logging
import os
import platform
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.dataplane import build, loader
from sluice.dataplane.libbpf import ATTACH_STRUCT_OPS, Resource, failure, ffi, forget_messages, lib
from sluice.dataplane.loader import STRUCT_OPS_SINCE, BpfObject
from sluice.dataplane.shared_resource import Link, Provided
from sluice.dataplane.sockopt import SocketHook
from sluice.dataplane.tagger import DSCPS, TagSettings
from sluice.policy import controls
from sluice.policy.controls import PARAMETERS_MAX, PREFIX
from sluice.policy.errors import EnvironmentLacking

log = logging.getLogger(__name__)

_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_PROGRAM = "cc_"


def available() -> list[str]:
    """Return the congestion controls that the kernel offers now."""
    return _AVAILABLE.read_text().split()


def ours() -> list[str]:
    """Return the kernel names of Sluice's congestion controls and of those from files."""
    return [control.kernel_name for control in (*controls.ours(), *controls.FROM_FILES.values())]


def register_congestion_control(name: str, object_file: Path | None = None) -> CongestionControl:
    """Make `name` ("sluice_dctcp") available until the returned handle is closed.

    The program is Sluice's own (cc_dctcp), or comes from an object file with a control of this name. Raises
    EnvironmentLacking if the kernel has no struct_ops or refuses them to this process.
    """
    control = CongestionControl(name, object_file)
    control.ensure()
    return control


class CongestionControl(Provided):
    """This process's interest in a congestion control. Connections keep a control even after it is unregistered."""

    def __init__(self, name: str, object_file: Path | None = None) -> None:
        super().__init__(f"congestion control {name}")
        self.name, self._object_file = name, object_file

    def is_present(self) -> bool:
        return self.name in available()

    def _hold(self) -> Link | None:
        return Link.to_struct_ops(self.name)

    def _provide(self) -> _Registration | None:
        return _Registration.make(self.name, self._object_file)


class _Registration(Resource):
    """A control that this process registered: by a link if the kernel has links, otherwise until `close`."""

    def __init__(self, loaded: BpfObject, handle: Any, link_fd: int | None) -> None:
        self._loaded, self._handle, self._link_fd = loaded, handle, link_fd

    @classmethod
    def make(cls, name: str, object_file: Path | None) -> _Registration | None:
        """Register the control. None if another process has registered it first."""
        if loader.kernel_version() < STRUCT_OPS_SINCE:
            raise EnvironmentLacking(
                f"Linux {platform.release()} cannot use a BPF program as congestion control (struct_ops): "
                f"boot Linux {'.'.join(map(str, STRUCT_OPS_SINCE))} or later"
            )
        loaded = loader.open_object(object_file or _object_of(name))
        forget_messages()
        handle = lib().bpf_map__attach_struct_ops(loaded.map_handle(name))
        if handle == ffi.NULL:
            return cls._refused(name, loaded, ffi.NULL)
        if not loader.kernel_has_struct_ops_links():
            return cls(loaded, handle, None)
        link_fd = lib().bpf_link_create(loaded.map(name).fd, 0, ATTACH_STRUCT_OPS, ffi.NULL)
        if link_fd < 0:
            return cls._refused(name, loaded, handle)
        return cls(loaded, handle, link_fd)

    @classmethod
    def _refused(cls, name: str, loaded: BpfObject, handle: Any) -> None:
        number = ffi.errno
        error = failure(f"cannot register the congestion control {name}", -number)
        cls(loaded, handle, -1).close()
        if number != errno.EEXIST:
            raise error
        log.info("congestion control %s was registered by another process: using that one", name)

    def close(self) -> None:
        if self._link_fd is not None:  # libbpf's handle is for a registration without a link
            if self._link_fd >= 0:
                os.close(self._link_fd)
            if self._handle != ffi.NULL:
                lib().bpf_link__disconnect(self._handle)
        if self._handle != ffi.NULL:
            lib().bpf_link__destroy(self._handle)
        self._loaded.close()


def _object_of(name: str) -> Path:
    """Return the compiled program of a control, and compile it first if that is necessary."""
    from_file = controls.FROM_FILES.get(name.removeprefix(PREFIX))
    return (
        build.control_object(from_file) if from_file else build.ensure(_PROGRAM + name.removeprefix(PREFIX))
    )


_LAYOUT = struct.Struct("=II16s16s24s128s16s16I")
_COOKIE = struct.Struct("=Q")
_MACHINE = bytes(_COOKIE.size)
_ONLY_IN_THE_FIRST = Path("/proc/sys/net/ipv4/tcp_mem")
"""A setting that no network namespace but the machine's first one shows."""
_SO_NETNS_COOKIE = 71


NO_TAGS = TagSettings(writes=False)


def kernel_parts() -> Iterator[Provided]:
    """Keep Sluice's congestion controls and the setsockopt hook, and yield each. The caller closes them at the end.

    Otherwise an agent that ends, of these or of others on the machine, would take one along: flows that begin before
    another agent provides it would have another control, and no deadline.
    """
    for part in (*(CongestionControl(name) for name in ours()), SocketHook()):
        try:
            part.keep()
            yield part
        except EnvironmentLacking as lacking:
            log.warning("%s; agents use the fallback, and the run is marked as not valid", lacking)


@dataclass(frozen=True)
class ControlSettings:
    """The settings of all connections of a host with a control of Sluice. The defaults are those of the papers."""

    growth: int = 1
    """Packets by which a window without marks grows, for controls that grow as Reno."""
    forgets_late: bool = False
    """Past its deadline, a flow continues as one without a deadline. Otherwise it stays the most urgent."""
    control: str = ""
    """The control for connections of listeners from before it was the default. Empty: they keep theirs."""
    without_ecn: str = "reno"
    """The kernel's control of connections whose other end refuses ECN."""
    tags: TagSettings = NO_TAGS
    """Tags that sockets with a control of Sluice carry themselves (bpf/socket_tag.bpf.h)."""
    parameters_of: str = ""
    """The control from a file to which `parameters` belong. Empty: none."""
    parameters: tuple[int, ...] = ()
    """The values of its parameters, in the order of its file."""


DEFAULT_CONTROL = ControlSettings()


def _packed(settings: ControlSettings) -> bytes:
    """As struct host_settings (bpf/host.bpf.h)."""
    names = (name.encode() for name in (settings.control, settings.without_ecn))
    written = b"".join(map(settings.tags.written, range(DSCPS)))
    values = (*settings.parameters, *[0] * (PARAMETERS_MAX - len(settings.parameters)))
    file = settings.parameters_of.encode()
    return _LAYOUT.pack(
        settings.growth, settings.forgets_late, *names, settings.tags.packed(), written, file, *values
    )


def in_first_namespace() -> bool:
    """Return whether this thread is in the machine's first network namespace, from which new ones inherit."""
    return _ONLY_IN_THE_FIRST.exists()


def _namespace() -> bytes:
    """Return the cookie of this thread's network namespace."""
    with socket.socket() as any_socket:
        return any_socket.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, _COOKIE.size)


class HostEntry(Resource):
    """The entry of the network namespace of the thread that calls.

    Other namespaces keep theirs. In the machine's first namespace, it may also write the entry of all that have none.
    """

    def __init__(self) -> None:
        """Raises EnvironmentLacking when BPF cannot be used here."""
        self._object = loader.load("cc_dctcp")  # any control: all share the machine's one map
        self._map = self._object.map("sluice_host_4")

    def set(self, settings: ControlSettings, others: ControlSettings | None = None) -> None:
        """Change the settings from each connection's next window on.

        `others`: of all namespaces without an entry, if this is the machine's first one. None: they have no settings.
        """
        self._map.update(_namespace(), _packed(settings))
        if in_first_namespace() and others is not None:
            self._map.update(_MACHINE, _packed(others))
        elif in_first_namespace():
            self._map.delete(_MACHINE)

    def holds(self, settings: ControlSettings) -> bool:
        """Return whether these settings are in force."""
        return self._map.lookup(_namespace()) == _packed(settings)

    def forget(self) -> None:
        """Remove the entry: the defaults hold, and programs cannot declare flows. Idempotent."""
        self._map.delete(_namespace())
        if in_first_namespace():
            self._map.delete(_MACHINE)

    def close(self) -> None:
        self._object.close()
