# SPDX-License-Identifier: Apache-2.0
"""The simulator's tier: the extension is compiled from today's sources before a test imports it."""

from __future__ import annotations

from simulator.build import build

build()
