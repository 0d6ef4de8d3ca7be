# SPDX-License-Identifier: Apache-2.0
"""The `sluice` command, and what it stands on: runs and their bundles, sweeps, reports, benchmarks."""
