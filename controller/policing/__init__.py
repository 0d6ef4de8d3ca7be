# SPDX-License-Identifier: Apache-2.0
"""Policing of hosts with false tags."""
