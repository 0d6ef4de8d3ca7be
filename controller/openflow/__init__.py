# SPDX-License-Identifier: Apache-2.0
"""The OpenFlow 1.3 codec: the only package that knows os-ken's message classes. Pure.

frames    bytes with a header: cut out of a stream, joined from several parts; entries of statistics replies
request   requests: polls, barriers, roles
answers   what a switch sends, as values: results, errors, ports, and LLDP frames by which links are found
change    changes of rules into flow-mods, group-mods, meter-mods and bundles; messages for switches that Sluice leaves
read      replies into rules and groups
counters  replies into counters by port, tag, queue and flow
learn     the actions by which a switch counts flows and remembers hosts, and the hosts that it remembers
"""
