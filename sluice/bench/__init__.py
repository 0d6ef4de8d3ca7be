# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: the costs of data plane, control loop, store and simulator. One file for each part;
parts.py lists them."""
