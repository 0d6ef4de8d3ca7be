# SPDX-License-Identifier: Apache-2.0
"""How many bytes TLS adds to what a program writes."""

from __future__ import annotations

_RECORD_PAYLOAD_BYTES = 16_384
_RECORD_BYTES = {"TLSv1.3": 22}
"""Of a record of TLS 1.3: a header of 5 bytes, a type of 1, and an authentication tag of 16."""
_MOST_RECORD_BYTES = 29
"""Of a record of TLS 1.2: header, explicit nonce of 8, tag."""
_MORE_RECORDS = 2
"""A program that writes a head and a body apart makes a record more, and a layer between may cut one."""


def tls_bytes(version: str | None, size_bytes: int) -> int:
    """Return how many bytes of TCP this many bytes of a program take under a version of TLS (None: unknown), about.

    `version` is that of ssl.SSLSocket.version(). The result is rather too large than too small.
    """
    records = -(-size_bytes // _RECORD_PAYLOAD_BYTES) + _MORE_RECORDS
    return size_bytes + records * _RECORD_BYTES.get(version or "", _MOST_RECORD_BYTES)
