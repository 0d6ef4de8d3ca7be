# SPDX-License-Identifier: Apache-2.0
"""OpenFlow 1.3 messages: rules into messages, replies into rules and counters."""
