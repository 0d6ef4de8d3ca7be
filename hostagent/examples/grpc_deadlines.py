# SPDX-License-Identifier: Apache-2.0
"""A gRPC server whose responses carry the deadlines of their calls, and a client.

Usage: python hostagent/examples/grpc_deadlines.py serve ADDRESS:PORT
       python hostagent/examples/grpc_deadlines.py call ADDRESS:PORT BYTES MILLISECONDS [CALLS]

The server's only method returns as many bytes as the request says. The example in Go has the same service.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf.wrappers_pb2 import BytesValue, UInt64Value

from sluice.hostagent.sockets.grpc import Declaring

SERVICE, METHOD = "sluice.example.Blobs", "Get"
MOST_BYTES = 1 << 28


def get(request: Any, context: Any) -> Any:
    if request.value > MOST_BYTES:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{request.value} bytes: at most {MOST_BYTES}")
    return BytesValue(value=bytes(request.value))


def serve(address: str) -> None:
    server = grpc.server(ThreadPoolExecutor(8), interceptors=[Declaring()])
    method = grpc.unary_unary_rpc_method_handler(get, UInt64Value.FromString, BytesValue.SerializeToString)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {METHOD: method})])
    port = server.add_insecure_port(address)
    server.start()
    print(f"serves {address.rpartition(':')[0]}:{port}", flush=True)
    server.wait_for_termination()


def call(address: str, size_bytes: str, milliseconds: str, calls: str = "1") -> None:
    missed = 0
    with grpc.insecure_channel(address, [("grpc.max_receive_message_length", 2 * MOST_BYTES)]) as channel:
        method = channel.unary_unary(
            f"/{SERVICE}/{METHOD}", UInt64Value.SerializeToString, BytesValue.FromString
        )
        for _ in range(int(calls)):
            try:
                method(
                    UInt64Value(value=int(size_bytes)), timeout=int(milliseconds) / 1000, wait_for_ready=True
                )
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise
                missed += 1
    print(f"{calls} calls of {size_bytes} bytes, {missed} later than {milliseconds} ms")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", address]:
            serve(address)
        case ["call", address, size_bytes, milliseconds, *calls] if len(calls) < 2:
            call(address, size_bytes, milliseconds, *calls)
        case _:
            sys.exit(__doc__)
