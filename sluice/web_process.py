# SPDX-License-Identifier: Apache-2.0
"""Requests of commands to the web process, with the policy token where one is needed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import requests

from policy.errors import SluiceError
from webui.auth import find_token

TIMEOUT_S = 10.0
DEFAULT_URL = "http://127.0.0.1:8080"


def add_web(parser: argparse.ArgumentParser, *, token: bool) -> None:
    """Add the option for the address and, if the command changes something, the one for the token."""
    parser.add_argument(
        "--url", default=DEFAULT_URL, help="address of the web process (default: %(default)s)"
    )
    if token:
        parser.add_argument(
            "--token-file",
            type=Path,
            metavar="FILE",
            help="file with the token of the web process (default: $SLUICE_TOKEN, or the generated file)",
        )


def get(arguments: argparse.Namespace, path: str) -> Any:
    """Return a document of the API. Raises SluiceError."""
    return _request(arguments, "GET", path, {}, None)


def post(arguments: argparse.Namespace, path: str, body: Any = None) -> Any:
    """Send a request that needs the token, and return the answer. Raises SluiceError."""
    token, _source = find_token(arguments.token_file)
    return _request(arguments, "POST", path, {"Authorization": f"Bearer {token}"}, body)


def _request(arguments: argparse.Namespace, method: str, path: str, headers: Any, body: Any) -> Any:
    url = arguments.url.rstrip("/")
    try:
        answer = requests.request(method, url + path, headers=headers, json=body, timeout=TIMEOUT_S)
        document = answer.json()
    except (requests.RequestException, ValueError) as error:
        raise SluiceError(
            f"no Sluice answers at {url} ({str(error)[:120]}): start the web process, or give --url"
        ) from None
    if answer.status_code == 401:
        raise SluiceError(f"{url} refuses the token: give the web process's own with --token-file")
    if not answer.ok:
        raise SluiceError(f"{url} refuses: {document['error']['problem']}")
    return document
