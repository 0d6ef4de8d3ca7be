# SPDX-License-Identifier: Apache-2.0
"""The SDN controller: see README.md in this folder."""
