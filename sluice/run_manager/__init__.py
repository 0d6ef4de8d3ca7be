# SPDX-License-Identifier: Apache-2.0
"""The process that starts, watches and ends the runs of a web process, and lists those of its folder.

The web process starts it and calls it over a Unix socket. So runs survive a web worker, and need no code of it.
"""
