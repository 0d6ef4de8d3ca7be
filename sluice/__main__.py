# SPDX-License-Identifier: Apache-2.0
"""`python -m sluice` is the `sluice` command."""

import sys

from sluice.cli import main

sys.exit(main())
