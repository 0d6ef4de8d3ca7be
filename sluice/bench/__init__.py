# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: what data plane, control loop, store and simulator cost. One file for each part; parts.py lists them."""
