# SPDX-License-Identifier: Apache-2.0
"""The web process: ingestion of flow records and heartbeats, REST under /api/v1, server-sent events, the dashboard."""

from importlib.metadata import version

__version__ = version("sluice")
