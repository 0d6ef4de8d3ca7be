# SPDX-License-Identifier: Apache-2.0
"""Every command that sets up switches and hosts, as data. Nothing is run here.

A command is its argument vector and its standard input. `ip` and `tc` read whole batches from standard input. An
OVSDB transaction is one `ovs-vsctl`.
"""
