# SPDX-License-Identifier: Apache-2.0
"""The version of Sluice that runs."""

from importlib.metadata import version

VERSION = version("sluice")
