# SPDX-License-Identifier: Apache-2.0
"""The REST API, one blueprint for each subject."""
