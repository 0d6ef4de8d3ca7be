# SPDX-License-Identifier: Apache-2.0
"""The version of Sluice. Packages, wheel, commands and the API read it here."""

VERSION = "0.2.0"
