# SPDX-License-Identifier: Apache-2.0
"""Measures of the project's prose: a mirror to write by, not a gate."""
