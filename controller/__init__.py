# SPDX-License-Identifier: Apache-2.0
"""The SDN controller: see README.md in this folder."""

import signal

END_SIGNALS = {signal.SIGTERM, signal.SIGINT}
