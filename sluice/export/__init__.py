# SPDX-License-Identifier: Apache-2.0
"""The policy as the configuration of switches that are no Open vSwitch."""
