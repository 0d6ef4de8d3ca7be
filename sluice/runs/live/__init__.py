# SPDX-License-Identifier: Apache-2.0
"""The simulated network of a demonstration: paced by the wall clock, with the rows of a real network."""

PORT_AGENT, SIMULATOR_AGENT = "ports", "simulator"
"""Names of the agents of a simulated network that are no hosts."""
