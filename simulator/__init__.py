# SPDX-License-Identifier: Apache-2.0
"""The fabric simulator: scenarios on a packet-level model of the network, with the laws of the kernel compiled in."""
