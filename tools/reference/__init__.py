# SPDX-License-Identifier: Apache-2.0
"""Reference pages that are made from the code, so that no fact is written twice."""
