# SPDX-License-Identifier: Apache-2.0
"""Write tables into a SONiC switch over gNMI: one Set request, so that the switch takes all rows or none.

Rows are replaced one by one, and other rows of the tables stay. Paths have the form that SONiC's own server takes:
origin sonic-db, then CONFIG_DB, localhost, table and row (sonic-net/sonic-gnmi).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policy.errors import SluiceError
from sluice.export.sonic import Tables

TIMEOUT_S = 30
ORIGIN = "sonic-db"
DATABASE = ("CONFIG_DB", "localhost")


@dataclass(frozen=True)
class GnmiTarget:
    """A switch, and how to reach it."""

    address: str
    """HOST:PORT."""
    authority: Path | None
    """Certificate of the authority that has signed the switch's certificate. None: plain text."""
    certificate: Path | None = None
    """Our certificate, if the switch asks for one, and its key."""
    key: Path | None = None


def apply(tables: Tables, target: GnmiTarget) -> int:
    """Replace the rows of the switch by those of the tables, and return their number.

    Raises SluiceError if the switch cannot be reached or refuses.
    """
    try:
        import grpc
        from pygnmi.spec.v080 import gnmi_pb2, gnmi_pb2_grpc
    except ModuleNotFoundError:
        raise SluiceError("--gnmi needs the Python package pygnmi: pip install 'sluice[gnmi]'") from None
    rows = [
        _update(gnmi_pb2, table, row, fields)
        for table, found in tables.items()
        for row, fields in found.items()
    ]
    with _channel(grpc, target) as channel:
        try:
            gnmi_pb2_grpc.gNMIStub(channel).Set(gnmi_pb2.SetRequest(replace=rows), timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            said = f"{error.code().name}: {error.details()}"
            raise SluiceError(f"--gnmi: {target.address} took no row ({said})") from None
    return len(rows)


def _update(messages: Any, table: str, row: str, fields: Mapping[str, str]) -> Any:
    """The message that replaces one row."""
    path = [messages.PathElem(name=name) for name in (*DATABASE, table, row)]
    value = messages.TypedValue(json_ietf_val=json.dumps(fields).encode())
    return messages.Update(path=messages.Path(origin=ORIGIN, elem=path), val=value)


def _channel(grpc: Any, target: GnmiTarget) -> Any:
    if target.authority is None:
        return grpc.insecure_channel(target.address)
    files = (target.authority, target.key, target.certificate)
    return grpc.secure_channel(
        target.address, grpc.ssl_channel_credentials(*(file and _read(file) for file in files))
    )


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SluiceError(f"cannot read {file}: {error.strerror}") from None
