# SPDX-License-Identifier: Apache-2.0
"""A gNMI server that keeps the rows it is given, as SONiC's CONFIG_DB does. It takes all rows of a request or none."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from pygnmi.spec.v080 import gnmi_pb2, gnmi_pb2_grpc

KNOWN_TABLES = {
    "DSCP_TO_TC_MAP",
    "TC_TO_QUEUE_MAP",
    "PORT_QOS_MAP",
    "SCHEDULER",
    "QUEUE",
    "WRED_PROFILE",
}


class FakeSwitch(gnmi_pb2_grpc.gNMIServicer):  # type: ignore[misc]
    """`rows` holds (table, row) → fields; `requests` the rows of each request, in order."""

    def __init__(self, credentials: Any = None) -> None:
        self.rows: dict[tuple[str, str], dict[str, str]] = {}
        self.requests: list[list[tuple[str, str]]] = []
        self._server = grpc.server(ThreadPoolExecutor(2))
        gnmi_pb2_grpc.add_gNMIServicer_to_server(self, self._server)
        if credentials is None:
            self.port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            self.port = self._server.add_secure_port("localhost:0", credentials)
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()

    def Set(self, request: Any, context: Any) -> Any:
        changed = {}
        for update in request.replace:
            database, place, table, row = (one.name for one in update.path.elem)
            if (update.path.origin, database, place) != ("sonic-db", "CONFIG_DB", "localhost"):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not a path of CONFIG_DB")
            if table not in KNOWN_TABLES:
                context.abort(grpc.StatusCode.NOT_FOUND, f"no table {table}")
            changed[table, row] = json.loads(update.val.json_ietf_val)
        self.rows |= changed
        self.requests.append(list(changed))
        return gnmi_pb2.SetResponse()
