# SPDX-License-Identifier: Apache-2.0
"""Secrets in texts: every user of the machine reads a command line, and logs keep messages."""

from __future__ import annotations

import re

_USERINFO = re.compile(r"(://[^:/@?]*):[^/]*@")
_QUERY = re.compile(r"([?&](?:ssl)?password=)[^&]*", re.IGNORECASE)

PASSWORD_REMEDY = (
    "a command line shows its password to every user of the machine: leave it out of the URL, and put it into the file"
    " of store_password_file or into ~/.pgpass"
)


def has_password(url: str) -> bool:
    """Return whether a URL holds a password, before the host or in its query."""
    return without_password(url) != url


def without_password(url: str) -> str:
    """Return the URL with *** in place of its password."""
    return _QUERY.sub(r"\1***", _USERINFO.sub(r"\1:***@", url))
