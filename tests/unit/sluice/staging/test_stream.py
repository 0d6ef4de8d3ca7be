# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sluice.staging import stream
from sluice.staging.stream import Message, file_messages, from_line, to_line

MESSAGES = (
    Message("pias/load-0.5/seed-01", status='{"state": "running"}'),
    Message("pias/seed-01", file="summary.json", piece="e30="),
    Message("pias/seed-01", file="empty", piece=""),
    Message("pias/seed-01", code=0),
)


def test_lines__a_message_survives() -> None:
    assert [from_line(to_line(message)) for message in MESSAGES] == list(MESSAGES)
    assert all(to_line(message).count(b"\n") == 1 for message in MESSAGES)


@given(st.binary())
def test_from_line__takes_no_line_of_someone_else(line: bytes) -> None:
    assert from_line(b"prolog: " + line) is None


def test_file_messages__pieces_join_to_the_file(tmp_path: Path) -> None:
    for size in (0, 1, stream.PIECE_BYTES, 2 * stream.PIECE_BYTES + 1):
        path = tmp_path / "flows.parquet"
        path.write_bytes(bytes(range(256)) * (size // 256) + bytes(size % 256))
        sent = list(file_messages("pias/seed-01", path))
        assert len(sent) == max(1, -(-size // stream.PIECE_BYTES))
        assert b"".join(message.content for message in sent) == path.read_bytes()
