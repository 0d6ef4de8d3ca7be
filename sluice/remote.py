# SPDX-License-Identifier: Apache-2.0
"""The REST API of a running web process, for commands."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluice.policy.errors import SluiceError
from sluice.runtime.http_client import HttpClient, ServerAway
from sluice.runtime.token_file import find_token

DEFAULT_URL = "http://127.0.0.1:8080"
ANSWERS_WITHIN_S = 60.0
"""On a busy machine a change may take long, and a command that gives up would say that nobody answers."""


def add_remote(parser: argparse.ArgumentParser, *, changes: bool = True) -> None:
    """Add the option for the address and, if the command changes something, the one for the token."""
    parser.add_argument(
        "--url", default=DEFAULT_URL, help="address of the web process (default: %(default)s)"
    )
    if changes:
        parser.add_argument(
            "--token-file",
            type=Path,
            metavar="FILE",
            help="file with the token of the web process (default: $SLUICE_TOKEN, or the generated file)",
        )


class Remote:
    """A web process. All methods raise SluiceError if it refuses, and Away if it does not answer."""

    class Away(SluiceError):
        """No web process answers."""

    def __init__(self, url: str, token_file: Path | None) -> None:
        self._url, self._token_file = url, token_file
        self._client = HttpClient(url, ANSWERS_WITHIN_S, option="--url")

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Remote:
        return cls(arguments.url, getattr(arguments, "token_file", None))

    def get(self, path: str) -> dict[str, Any]:
        return self._request("GET", path, None, {})

    def post(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Send a document that changes nothing."""
        return self._request("POST", path, document, {})

    def read(self, path: str) -> dict[str, Any]:
        """Get what not everyone may read, with the token."""
        return self.change("GET", path)

    def change(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a change, with the token."""
        token, source = find_token(self._token_file)
        return self._request(method, path, document, {"Authorization": f"Bearer {token}"}, source)

    def _request(
        self,
        method: str,
        path: str,
        document: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        source: str = "",
    ) -> dict[str, Any]:
        body = None if document is None else json.dumps(document).encode()
        try:
            answer = self._client.request(method, f"/api/v1/{path}", body, headers)
            content: dict[str, Any] = answer.json()
        except ServerAway as away:
            raise self.Away(
                f"no Sluice answers at {self._url} ({away}): start a web process, or give --url"
            ) from None
        if answer.status == 401:
            problem = f"refuses the token of {source}" if source else "asks for a token"
            raise SluiceError(f"{self._url} {problem}: give the web process's own with --token-file")
        if not answer.ok:
            error = content["error"]
            where = f"{error['field']}: " if error["field"] else ""
            raise SluiceError(f"{self._url} answers {answer.status}: {where}{error['problem']}")
        return content
