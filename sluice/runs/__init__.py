# SPDX-License-Identifier: Apache-2.0
"""One run: a scenario on the testbed or on the simulator, from the scenario file to the bundle of results."""
