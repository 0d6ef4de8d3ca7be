# SPDX-License-Identifier: Apache-2.0
"""Cookies: which table, port, address family and tag a rule counts.

      63      48 47    40 39  32 31        16 15   8 7    0
     ┌──────────┬────────┬──────┬────────────┬──────┬──────┐
     │  SPACE   │ table  │  0   │    port    │family│ code │
     └──────────┴────────┴──────┴────────────┴──────┴──────┘

The code is a tag, NOT_IP, VLAN or NO_CODE. In the table `ends`, the group of the ingress port takes the place of the
family, because one rule counts both families. A request with a cookie mask selects the counters of one
table, and the cookies in the reply identify each counter.
"""

from __future__ import annotations

from sluice.policy import tags

COOKIE_SPACE = 0x51CE
COOKIE_SPACE_MASK = 0xFFFF << 48
COOKIE_TABLE_MASK = COOKIE_SPACE_MASK | 0xFF << 40
NOT_IP = tags.TAG_COUNT
"""Code of packets that have no DSCP (ARP). They use queue 0."""
VLAN = NOT_IP + 1
"""Code of frames of the operator's VLANs at a switch whose rules name the queue in a priority tag. A frame of full
length has no room for a second tag, so these frames get none, and use the queue of untagged packets."""
NO_CODE = 0xFF
"""Code of rules that count no tag."""


def cookie(table: int, port: int = 0, code: int = NO_CODE, family: int = 0) -> int:
    return COOKIE_SPACE << 48 | table << 40 | port << 16 | family << 8 | code


def cookie_table(value: int) -> int:
    return value >> 40 & 0xFF


def cookie_port(value: int) -> int:
    return value >> 16 & 0xFFFF


def cookie_code(value: int) -> int:
    return value & 0xFF
