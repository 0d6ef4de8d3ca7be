# SPDX-License-Identifier: Apache-2.0
"""A plugin: scheme sluice with other cuts for marks. It shows what the part of UCP gives.

The cut of a flow with a deadline depends on its urgency in three ways: not at all (DCTCP), little (D2TCP: alpha to the
power of 0.5 to 2), or much (UCP, the scheme's own: to the power of 0 to 4). Queues and tags are the same.
"""

from dataclasses import replace

from policy import controls
from policy.schemes.sluice import SLUICE

AS_DCTCP = replace(SLUICE, name="sluice-dctcp", title="Sluice, cut as DCTCP", control=controls.DCTCP)
AS_D2TCP = replace(SLUICE, name="sluice-d2tcp", title="Sluice, cut as D2TCP", control=controls.D2TCP)
