# SPDX-License-Identifier: Apache-2.0
"""The simulator: runs scenarios on a packet-level model of the network, with the kernel's laws compiled in."""
