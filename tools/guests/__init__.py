# SPDX-License-Identifier: Apache-2.0
"""Debian's own kernels in virtual machines (QEMU without hardware help): for function, never for speed.

`python -m tools.guests --help` runs a command under such a kernel. `tests/kernels/` uses the same functions.
"""
