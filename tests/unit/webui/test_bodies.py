# SPDX-License-Identifier: Apache-2.0

import io
from typing import Any

import pytest

from sluice.policy.wire.agents import MAX_HEARTBEAT_BYTES
from sluice.webui.api import MAX_BODY_BYTES, MAX_FLOWS_BODY_BYTES, ApiError, parse_json
from tests.unit.webui.conftest import Client

JSON = {"content_type": "application/json"}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b'{"a": NaN}',
        b"[1e999]",
        b"\xff\xfe",
        b'["\\ud800"]',
        b"1" * 5000,
        b"[" * 100_000,
        b"[1] [2]",
        b'[{"a": [{"b": 1, "c": 2, "b": 1}]}]',
    ],
)
def test_parse_json__what_is_no_json_is_a_400(raw: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        parse_json(raw)
    assert (caught.value.status, caught.value.code) == (400, "malformed-json")


def test_parse_json__a_whole_number_is_whole_however_it_is_written() -> None:
    value = parse_json(b'[3.0, 3, 1e2, 9007199254740992.0, 1e18, 2.5, "\\ud83d\\ude00"]')
    assert value == [3, 3, 100, 2**53, 10**18, 2.5, "😀"]
    assert [type(x) for x in value] == [int, int, int, int, int, float, str]


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [("text/plain", ""), ("", ""), ("application/x-www-form-urlencoded", ""), ("application/json", "gzip")],
)
def test_other_content_types_and_encodings_are_a_415(
    client: Client, content_type: str, encoding: str
) -> None:
    headers = {"Content-Encoding": encoding} if encoding else {}
    answer = client.post("/api/v1/flows", data=b"[]", content_type=content_type, headers=headers)
    assert (answer.status_code, answer.json["error"]["code"]) == (415, "unsupported-media-type")


class Unread(io.RawIOBase):
    """A body that counts the bytes that nobody has read."""

    def __init__(self, size: int) -> None:
        self.left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self.left)
        self.left -= count
        buffer[:count] = b" " * count
        return count


@pytest.mark.parametrize(
    ("method", "path", "limit"),
    [
        ("PUT", "/api/v1/policy", MAX_BODY_BYTES),
        ("POST", "/api/v1/agents/h1", MAX_HEARTBEAT_BYTES),
        ("POST", "/api/v1/flows", MAX_FLOWS_BODY_BYTES),
    ],
)
def test_a_body_over_the_limit_is_a_413_and_never_in_memory(
    client: Client, bearer: dict[str, str], method: str, path: str, limit: int
) -> None:
    body = Unread(10_000_000)
    environ = {"wsgi.input": body, "CONTENT_LENGTH": "10000000"}
    answer = client.open(path, method=method, headers=bearer, environ_overrides=environ, **JSON)
    assert (answer.status_code, answer.json["error"]["code"]) == (413, "too-large")
    assert body.left == 10_000_000, "its length is known, so none of it needs to be read"
    fits = client.open(path, method=method, data=b" " * limit, headers=bearer, **JSON)
    assert fits.status_code == 400


def test_a_streamed_body_over_the_limit_is_a_413(client: Client) -> None:
    environ = {"wsgi.input": Unread(10_000_000), "wsgi.input_terminated": True}
    answer = client.post("/api/v1/flows", environ_overrides=environ, **JSON)
    assert answer.status_code == 413
