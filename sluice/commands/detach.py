# SPDX-License-Identifier: Apache-2.0
"""`sluice detach`: end `sluice attach`, and remove what a killed one has left."""

import argparse
import os

from sluice.commands.arguments import command_parser
from sluice.commands.attach import end_attached, give_back, state_folder
from sluice.policy.errors import SluiceError
from sluice.terminal import console

_EPILOG = """examples:
  sudo sluice detach    in the network namespace in which `sluice attach` was called
"""


def parser() -> argparse.ArgumentParser:
    return command_parser("detach", _EPILOG)


def execute(arguments: argparse.Namespace) -> int:
    if os.geteuid() != 0:
        raise SluiceError("detach needs root: run it with sudo")
    state = state_folder()
    was_attached = end_attached() or state.exists()
    give_back(state)
    console.print("The network is as it was." if was_attached else "Sluice is not attached here.")
    return 0
