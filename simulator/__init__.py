# SPDX-License-Identifier: Apache-2.0
"""The fabric simulator: a scenario on a packet-level model of the network, with the kernel's laws and the controller's policy."""
