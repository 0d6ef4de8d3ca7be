# SPDX-License-Identifier: Apache-2.0
"""Scheme sluice against PIAS, pFabric and Karuna."""
