# SPDX-License-Identifier: Apache-2.0
"""What reads bytes from outside, and the only errors with which it may answer.

`make fuzz-parsers` searches for inputs that break this. tests/unit/test_setup.py runs what it has kept.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sluice.controller.openflow.answers import AnswerReader, read_neighbour
from sluice.controller.openflow.counters import carried_counts, completed_counts, learned_flows, queue_counts
from sluice.controller.openflow.frames import Frame, Framer, MessageType, ProtocolViolation, message
from sluice.controller.openflow.learn import learned_hosts
from sluice.controller.openflow.read import read_rules
from sluice.hostagent.wire import HEADER_BYTES, NOTICE_BYTES, BadMessage, Header, Notice
from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.schema.desired import Policy
from sluice.policy.wire.agents import STORED_HEARTBEATS, heartbeat_from
from sluice.policy.wire.records import FlowRecord
from sluice.policy.workload.listed_flows import parse_list
from sluice.policy.workload.scenario import scenario_from_document
from sluice.policy.workload.sizes import parse_cdf
from sluice.runs.files import load_cdf, load_trace
from sluice.runtime.toml import NotToml, parse_toml
from sluice.topologies import build_topology
from sluice.webui.api import MAX_DEPTH, ApiError, _deeper_than, parse_json

CORPUS = Path(__file__).parent / "corpus"
MOST_BYTES = 8192
"""Room for a number with more digits than Python turns into a number: 4300."""
_PORTS = np.arange(1, 5, dtype=np.int64)


def _openflow(data: bytes) -> None:
    """Everything that a switch sends after the handshake, in two pieces."""
    framer, answers = Framer(), AnswerReader()
    with suppress(ProtocolViolation):
        for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
            for frame in framer.feed(piece):
                answers.read(frame)


_STATISTICS: tuple[Callable[[bytes], object], ...] = (
    lambda body: carried_counts(body, _PORTS),
    lambda body: completed_counts(body, _PORTS),
    queue_counts,
    learned_flows,
    lambda body: learned_hosts(1, body),
)


def _statistics(data: bytes) -> None:
    """Bodies of statistics replies. The first byte chooses the reader."""
    if not data:
        return
    chosen, body = data[0] % (len(_STATISTICS) + 1), data[1:]
    if chosen < len(_STATISTICS):
        with suppress(ProtocolViolation):
            _STATISTICS[chosen](body)
        return
    try:
        read_rules(body, b"")
    except (MemoryError, RecursionError):
        raise
    except Exception:  # os-ken may raise anything; a session ends its connection then
        pass


def _lldp(data: bytes) -> None:
    """A packet-in: a frame that a switch has received."""
    with suppress(ProtocolViolation):
        read_neighbour(Frame(4, MessageType.PACKET_IN, 1, message(MessageType.PACKET_IN, data)))


def _wire(data: bytes) -> None:
    """The messages between traffic endpoints."""
    if len(data) >= HEADER_BYTES:
        with suppress(BadMessage):
            header = Header.unpack(data[:HEADER_BYTES])
            assert Header.unpack(header.pack()) == header
    if len(data) >= NOTICE_BYTES:
        with suppress(BadMessage):
            notice = Notice.unpack(data[:NOTICE_BYTES])
            assert Notice.unpack(notice.pack()) == notice


def _document(data: bytes, *, deep: bool = False) -> Any:
    """Return a JSON body as the web process reads it; None if it refuses it."""
    with suppress(ApiError):
        value = parse_json(data)
        return None if not deep and _deeper_than(value, MAX_DEPTH) else value
    return None


def _records(data: bytes) -> None:
    """The body of a delivery of flow records: what is accepted can be stored."""
    value = _document(data, deep=True)
    for item in value if isinstance(value, list) else [value]:
        with suppress(FieldError):
            json.dumps(vars(FlowRecord.from_document(item)), allow_nan=False)


def _heartbeat(data: bytes) -> None:
    with suppress(FieldError):
        heartbeat_from(_document(data), STORED_HEARTBEATS)


def _policy(data: bytes) -> None:
    """A policy as JSON, and as the table of a TOML file."""
    for document in (_document(data), _toml(data)):
        if isinstance(document, dict):
            with suppress(FieldError):
                policy = Policy.from_document(document)
                assert Policy.from_document(policy.to_document()) == policy


def _toml(data: bytes) -> dict[str, Any] | None:
    with suppress(NotToml, UnicodeDecodeError):
        return parse_toml(data.decode())
    return None


def _scenario(data: bytes) -> None:
    document = _toml(data)
    if document is not None and _is_small(document):
        document.pop("sweep", None)  # as scenario_from_file does
        with suppress(FieldError):
            build_topology(scenario_from_document(document, load_cdf, load_trace))


def _is_small(document: Mapping[str, Any]) -> bool:
    """Whether the network can be built at once. A network of 10,000 hosts is no error, and takes seconds."""
    fabric = document.get("fabric", {})
    numbers = fabric.values() if isinstance(fabric, dict) else ()
    return all(number < 40 for number in numbers if isinstance(number, int))


def _text(parse: Callable[[str, str], object]) -> Callable[[bytes], None]:
    def target(data: bytes) -> None:
        with suppress(SluiceError, UnicodeDecodeError):
            parse("fuzz", data.decode())

    return target


def _listed(name: str, text: str) -> None:
    table = parse_list(name, text)
    if table is not None:
        table.workload()


TARGETS: dict[str, Callable[[bytes], None]] = {
    "openflow": _openflow,
    "statistics": _statistics,
    "lldp": _lldp,
    "wire": _wire,
    "records": _records,
    "heartbeat": _heartbeat,
    "policy": _policy,
    "scenario": _scenario,
    "list": _text(_listed),
    "cdf": _text(parse_cdf),
}


def corpus(name: str) -> list[bytes]:
    """Return the inputs that campaigns have kept for a target."""
    path = CORPUS / f"{name}.json"
    return [text.encode("latin-1") for text in json.loads(path.read_text())] if path.exists() else []
