# SPDX-License-Identifier: Apache-2.0
"""The life of a service: the signals that end it, its reports to systemd, and the watch over a child by such reports.

Ctrl-C, a closed terminal, `kill` and `systemctl stop` ask a process to end. All of them end in order.

A service tells systemd that it is ready, alive, or stops (`man sd_notify`). Without systemd, these calls do nothing.
The main loop calls `alive`, so systemd restarts a service whose loop hangs (`WatchdogSec=` in the unit). A parent that
reads these reports itself finds a child that lives but does nothing. Where there is no systemd, as in Kubernetes, a
supervisor names a file in SLUICE_ALIVE_FILE, and looks when it was written last.
"""

import logging
import os
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path

from sluice.runtime.wait import patient

_ASKING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


def end_signals() -> set[signal.Signals]:
    """Return the signals that end this process. SIGHUP is none of them under nohup, which lets a process ignore it."""
    stays = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return {number for number in _ASKING if not (stays and number == signal.SIGHUP)}


def on_end(end: Callable[[], object]) -> None:
    """Call `end` at each signal that asks this process to end. Call this in the main thread."""
    for number in end_signals():
        signal.signal(number, lambda *_: end())


def on_first_end(end: Callable[[signal.Signals], object]) -> None:
    """Call `end` at the first such signal. Later ones do not disturb the end, except Ctrl-C.

    At SIGHUP, the terminal is gone, so the output goes nowhere from then on.
    """

    def first(number: int, frame: object) -> None:
        for other in end_signals() - {signal.SIGINT}:
            signal.signal(other, lambda *_: None)  # not SIG_IGN, which children inherit
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if number == signal.SIGHUP:
            _leave_terminal()
        _asked.append(signal.Signals(number))
        end(signal.Signals(number))

    for number in end_signals():
        signal.signal(number, first)


_asked: list[signal.Signals] = []
"""The signal of `on_first_end`, once it has come."""


def end_if_asked() -> None:
    """Raise KeyboardInterrupt if `on_first_end` has seen a signal, in a loop that must not miss it.

    A library may swallow the exception that the signal has raised. pyarrow does so while it imports pandas before its
    first array.
    """
    if _asked:
        raise KeyboardInterrupt(_asked[0].name)


def _leave_terminal() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for stream in (0, 1, 2):
        if stat.S_ISCHR(os.fstat(stream).st_mode):  # isatty() is false once the terminal is gone
            os.dup2(nowhere, stream)
    os.close(nowhere)


log = logging.getLogger(__name__)

_SOCKET, _WATCHDOG_US, _WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
_ALIVE_FILE, _ALIVE_FILE_S = "SLUICE_ALIVE_FILE", 5.0
_PARTS_OF_THE_LIMIT = 4
"""`alive` reports this often within the limit, so a report may come late."""


class Notifier:
    """One service's reports to its supervisor. It takes the variables out of the environment, so no child has them."""

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        address = environ.pop(_SOCKET, "")
        limit_us, pid = environ.pop(_WATCHDOG_US, ""), environ.pop(_WATCHDOG_PID, "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watched = bool(self._address) and limit_us.isdigit() and pid in ("", str(os.getpid()))
        self.interval_s: float | None = int(limit_us) / 1e6 / _PARTS_OF_THE_LIMIT if watched else None
        """Seconds between two reports of life; None if no one watches this service."""
        alive_file = environ.pop(_ALIVE_FILE, "")
        self._alive_file = Path(alive_file) if alive_file else None
        if self._alive_file and self.interval_s is None:
            self.interval_s = _ALIVE_FILE_S
        self._next_s = 0.0

    def ready(self, status: str) -> None:
        """Report that the service does its work. `systemctl status` shows the status."""
        self._send(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """Report that the service ends on purpose."""
        self._send("STOPPING=1", wait_s=1)

    def alive(self) -> None:
        """Report that the main loop turns. Call it as often as you like: it sends at most once each `interval_s`."""
        if self.interval_s is None or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + self.interval_s
        self._send("WATCHDOG=1", wait_s=0)
        if self._alive_file:
            try:
                self._alive_file.touch()
            except OSError as error:
                log.warning("cannot write %s of %s: %s", self._alive_file, _ALIVE_FILE, error)

    def _send(self, message: str, wait_s: float | None = None) -> None:
        """Send a report. `wait_s`: how long to wait for a supervisor that does not read; None: until it does."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(wait_s)
                sender.connect(self._address)
                sender.sendall(message.encode())
        except BlockingIOError:
            pass  # the reports that it has not read say the same
        except OSError as error:
            log.warning("cannot report %r to systemd: %s", message.partition("\n")[0], error)


LIMIT_S = 10.0
"""A service that was ready and has not reported for this long hangs."""
MOST_BYTES = 107
"""Of a Unix socket's path."""
_OWN_PAUSE_S = 2.0
"""If this process has not looked for so long, it may have been stopped together with the child."""


class Watchdog:
    """The watch over one service. Start each of its processes with `env`, after `begin`."""

    def __init__(self, path: Path, limit_s: float = LIMIT_S) -> None:
        """`path`: where the service sends its reports; at most 107 bytes."""
        self._path = path
        self._limit_s = patient(limit_s)
        path.unlink(missing_ok=True)
        self._socket = socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        )
        self._socket.bind(str(path))
        self._turned_s: float | None = None
        """When the service reported last; None before it is ready, and once it ends on purpose."""
        self._looked_s = time.monotonic()

    @property
    def env(self) -> Mapping[str, str]:
        """The variables of the service."""
        return {"NOTIFY_SOCKET": str(self._path), "WATCHDOG_USEC": str(round(self._limit_s * 1e6))}

    def begin(self) -> None:
        """Forget the process before."""
        for _ in self._messages():
            pass
        self._turned_s = None

    def hangs(self) -> bool:
        """Return whether the service does nothing. Call this several times a second."""
        now_s = time.monotonic()
        pause_s, self._looked_s = now_s - self._looked_s, now_s
        if self._turned_s is not None and pause_s > _OWN_PAUSE_S:
            self._turned_s += pause_s
        for message in self._messages():
            if "STOPPING=1" in message:
                self._turned_s = None
            elif "READY=1" in message or self._turned_s is not None:
                self._turned_s = now_s
        return self._turned_s is not None and now_s - self._turned_s > self._limit_s

    def close(self) -> None:
        """Remove the socket. A second call does nothing."""
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _messages(self) -> Iterator[list[str]]:
        while True:
            try:
                yield self._socket.recv(4096).decode(errors="replace").splitlines()
            except BlockingIOError:
                return


def socket_path(folder: Path, name: str) -> Path:
    """Return a path for a service's reports that no other process of this machine uses.

    If the folder's own path is too long for a socket, the path goes through a descriptor that stays open.
    """
    path = folder / f"alive-{name}-{os.getpid()}"
    if len(os.fsencode(path)) <= MOST_BYTES:
        return path
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return Path(f"/proc/{os.getpid()}/fd/{descriptor}", path.name)
