# SPDX-License-Identifier: Apache-2.0
"""The `sluice` command and its parts: runs and their bundles, sweeps, reports, benchmarks."""
