# SPDX-License-Identifier: Apache-2.0
"""The tests of the simulator. The extension is compiled, if a source is newer, before a test imports it."""

from sluice.simulator.build import build

build()
