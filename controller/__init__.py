# SPDX-License-Identifier: Apache-2.0
"""The SDN controller: see README.md in this folder."""

from sluice.runtime.lifecycle import end_signals

END_SIGNALS = end_signals()
