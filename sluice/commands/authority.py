# SPDX-License-Identifier: Apache-2.0
"""`sluice authority`: show or rotate the authority that certifies agents; for the machine of the web process."""

from __future__ import annotations

import argparse
from pathlib import Path

from sluice.commands.arguments import command_parser
from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.certificates import fingerprint
from sluice.webui.auth import default_authority_path
from sluice.webui.authority import Authority

_EPILOG = """\
show    print the authorities that are trusted, the one that signs first
rotate  make a new authority; agents renew at their next heartbeat, and earlier authorities stay trusted
forget  end the trust in earlier authorities; an agent that did not renew must then be enrolled again
"""


def parser() -> argparse.ArgumentParser:
    made = command_parser("authority", _EPILOG)
    made.add_argument("action", choices=("show", "rotate", "forget"), help="see below")
    made.add_argument(
        "--authority",
        type=Path,
        default=default_authority_path(),
        metavar="DIR",
        help="folder of the authority (default: %(default)s)",
    )
    return made


def execute(arguments: argparse.Namespace) -> int:
    if not (arguments.authority / "authority.pem").exists():
        raise EnvironmentLacking(
            f"--authority: {arguments.authority} holds no authority; the web process makes one with --agents"
        )
    authority = Authority(arguments.authority)
    if arguments.action == "rotate":
        authority.rotate()
    if arguments.action == "forget":
        print(f"{authority.forget_retired()} earlier authorities are no longer trusted")
    for certificate in authority.trusted():
        until = f"{certificate.not_valid_after_utc:%Y-%m-%d}"
        print(f"{certificate.subject.rfc4514_string()}  SHA-256 {fingerprint(certificate)}  until {until}")
    return 0
