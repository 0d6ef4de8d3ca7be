# SPDX-License-Identifier: Apache-2.0
"""The allowed forms of names, in documents, rows of the store and addresses of the API."""

from __future__ import annotations

from sluice.policy.kinds import Text

AGENT = Text(r"[A-Za-z0-9._-]{1,64}", what="1 to 64 letters, digits or . _ -")
"""Names of agents, hosts, switches and congestion controls."""
TOKEN = Text(r"(?!owner$)[A-Za-z0-9._@-]{1,64}", what='1 to 64 letters, digits or . _ @ -, but not "owner"')
"""Names of access tokens. "owner" is the token with which the web process starts."""
SCHEME = Text(r"[A-Za-z0-9._+-]{1,64}", what="1 to 64 letters, digits or . _ + -")
ENDPOINT = Text(r"[A-Za-z0-9._:-]{1,64}", what="a host's name or its address")
FLOW_ID = Text(r"[A-Za-z0-9._:/-]{1,96}", what="1 to 96 letters, digits or . _ : / -")
PORT = Text(r"[A-Za-z0-9._-]{1,64}:[0-9]{1,9}", what='a port such as "s1:2"')
INTERFACE = Text(r"[^/\s\x00-\x1f\x7f-\x9f]{1,15}", what="a network interface")
