# SPDX-License-Identifier: Apache-2.0
"""The web process: ingestion of flow records and heartbeats, REST under /api/v1, server-sent events, the dashboard."""
