# SPDX-License-Identifier: Apache-2.0
"""One file for each command or subject. Each command has `parser()`, its command line, and `execute(arguments)`, which
returns the exit code. See `sluice.cli.command`."""
