# SPDX-License-Identifier: Apache-2.0
"""Does what a page tells its reader to do, on a fresh Debian 12, and writes down what happened and how long it took."""
