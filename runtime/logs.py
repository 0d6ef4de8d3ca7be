# SPDX-License-Identifier: Apache-2.0
"""The logs of services: lines of text on standard error, fields in systemd's journal, or a JSON object in each line.

Fields of the journal: MESSAGE, PRIORITY, SYSLOG_IDENTIFIER, LOGGER (the module), SLUICE_NAME (the host or agent),
CODE_FILE and CODE_LINE. `journalctl SLUICE_NAME=web1 -o json` finds and shows them.
"""

import json
import logging
import os
import socket
import struct
import sys
import time
from pathlib import Path

VARIABLE = "SLUICE_LOG"
"""The variable whose value "json" chooses JSON, as in the chart for Kubernetes."""
_JOURNAL = Path("/run/systemd/journal/socket")
_PRIORITIES = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6), (logging.DEBUG, 7))
"""Least level → priority of syslog."""
_LENGTH = struct.Struct("<Q")
_STANDARD_ERROR = 2


def start(level: int | str = logging.INFO, name: str = "") -> None:
    """Begin the log of a service. `name`: the host or agent that it works for; empty if there is only one."""
    handler: logging.Handler = logging.StreamHandler()
    if os.environ.get(VARIABLE) == "json":
        handler.setFormatter(_Json(name))
    elif _is_journal():
        handler = _Journal(name)
    else:
        who = f"{name} " if name else ""
        handler.setFormatter(logging.Formatter(f"%(asctime)s {who}%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


def _is_journal() -> bool:
    """Whether systemd has connected the standard error of this process with its journal (systemd.exec(5))."""
    there = os.fstat(_STANDARD_ERROR)
    return os.environ.get("JOURNAL_STREAM") == f"{there.st_dev}:{there.st_ino}"


class _Json(logging.Formatter):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._name:
            fields["name"] = self._name
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


class _Journal(logging.Handler):
    """Sends records with their fields to the journal (systemd.io/JOURNAL_NATIVE_PROTOCOL)."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._formatter = logging.Formatter("%(message)s")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def emit(self, record: logging.LogRecord) -> None:
        fields = {
            "MESSAGE": self._formatter.format(record),
            "PRIORITY": str(next((value for least, value in _PRIORITIES if record.levelno >= least), 7)),
            "SYSLOG_IDENTIFIER": "sluice",
            "LOGGER": record.name,
            "CODE_FILE": record.pathname,
            "CODE_LINE": str(record.lineno),
        }
        if self._name:
            fields["SLUICE_NAME"] = self._name
        try:
            self._socket.sendto(b"".join(map(_field, fields, fields.values())), str(_JOURNAL))
        except OSError:  # too long for a datagram, or the journal is away: what is connected takes the text
            print(fields["MESSAGE"], file=sys.stderr)


def _field(key: str, value: str) -> bytes:
    written = value.encode(errors="replace")
    return key.encode() + b"\n" + _LENGTH.pack(len(written)) + written + b"\n"
