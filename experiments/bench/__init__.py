# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: the costs of data plane, control loop, store and simulator. `__main__.py` lists their parts."""
