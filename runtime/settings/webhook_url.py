# SPDX-License-Identifier: Apache-2.0
"""The kind of a webhook's address. Its path is often a secret, so only the configuration file may have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlsplit

from sluice.runtime.settings.kinds import Outside


@dataclass(frozen=True)
class WebhookUrl(Outside):
    """The address of a receiver of messages. Errors and `--check` show its host only."""

    name: ClassVar[str] = "webhook"
    metavar: ClassVar[str] = "URL"
    only_in_file: ClassVar[bool] = True

    def read(self, where: str, value: object) -> str:
        if not isinstance(value, str) or not _is_one(value):
            raise self.refuse(where, "***" if isinstance(value, str) else value)
        return value

    def show(self, value: Any) -> str:
        url = urlsplit(value)
        return super().show(f"{url.scheme}://{url.netloc}/***")

    @property
    def allowed(self) -> str:
        return "http://HOST:PORT/PATH or https://HOST/PATH, without a user, a password or a fragment"


def _is_one(text: str) -> bool:
    if not text.isascii() or not text.isprintable() or " " in text:
        return False
    try:
        url = urlsplit(text)
        return (
            url.scheme in ("http", "https")
            and bool(url.hostname)
            and url.port != 0
            and "@" not in url.netloc
            and not url.fragment
        )
    except ValueError:  # the port is no number
        return False
