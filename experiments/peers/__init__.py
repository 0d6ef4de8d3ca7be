# SPDX-License-Identifier: Apache-2.0
"""Transports of other papers, each a congestion control in one file, beside the schemes of the tree."""
