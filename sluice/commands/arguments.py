# SPDX-License-Identifier: Apache-2.0
"""The common parts of several commands' command lines, and words for completion in the shell that no parser knows."""

import argparse
import math
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from sluice.cli import COMMANDS
from sluice.policy.errors import FieldError, SluiceError, shortened
from sluice.policy.units import rate_bps
from sluice.runtime import plugins
from sluice.runtime.settings import kinds
from sluice.runtime.toml import NotToml, read_toml

DAY_S = 86_400
LONGEST_S = 1e7
"""Longest time that a command accepts, 116 days."""
SCENARIO_HELP = (
    "a TOML file, the scenario.json of a bundle, or the name of a scenario in sluice/data/scenarios"
)


def command_parser(
    name: str, epilog: str | None = None, kind: type[argparse.ArgumentParser] = argparse.ArgumentParser
) -> argparse.ArgumentParser:
    """Return the empty parser of the command `name`. Its help starts with the command's line in
    `sluice --help`."""
    return kind(
        prog=f"sluice {name}",
        description=COMMANDS[name],
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_listen(parser: argparse.ArgumentParser) -> None:
    """Add the dashboard's address, and the permission to serve it to other machines without TLS."""
    parser.add_argument(
        "--listen",
        type=of_kind(kinds.Address()),
        default="127.0.0.1:8080",
        help="address of the dashboard (default: %(default)s)",
    )
    parser.add_argument(
        "--plaintext-beyond-loopback",
        action="store_true",
        help="allow --listen an address that other machines reach, though it has no TLS",
    )


def check_plaintext(listen: str, allowed: bool) -> None:
    """Raise FieldError if other machines reach the dashboard without TLS, and no one said that they may."""
    if not allowed and not kinds.is_loopback(listen):
        raise FieldError("--listen", kinds.PLAINTEXT.format(address=listen))


def check_free(listen: str) -> None:
    """Raise SluiceError if the dashboard cannot use this address."""
    try:
        socket.create_server(kinds.split_address(listen)).close()
    except OSError as error:
        raise SluiceError(
            f"cannot serve the dashboard on {listen} ({error}): "
            "stop the program that listens there, or choose another --listen"
        ) from None


def add_scenario(parser: argparse.ArgumentParser, about: str = SCENARIO_HELP, **more: Any) -> None:
    """Add the scenario, which files and the names of included scenarios complete."""
    scenario = parser.add_argument("scenario", type=Path, help=about, **more)
    completed(scenario, scenarios, files=("toml",))


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that start a web process: its store, and its log of events."""
    parser.add_argument(
        "--store",
        type=store_url,
        metavar="URL",
        help="a store that outlives the run: sqlite:////path/store.db or postgresql+psycopg://… "
        "(default: a file in the run's folder)",
    )
    parser.add_argument(
        "--event-log", type=file, metavar="FILE", help="also write every event to FILE as a line of JSON"
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add --set, which changes keys of the scenario."""
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="TABLE.KEY=VALUE",
        help="a key of the scenario, as in --set workload.flows=10000; may be repeated",
    )


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add --yes, which answers the question before a long run."""
    parser.add_argument("--yes", action="store_true", help="start also what takes hours, without a question")


def add_plugin(parser: argparse.ArgumentParser) -> None:
    """Add --plugin, which loads a part from outside the tree as soon as it is read."""
    parser.add_argument(
        "--plugin",
        dest="plugins",
        action="append",
        default=[],
        type=plugin,
        metavar="FILE",
        help="a Python file with a scheme, a topology or workloads of your own, a C header with a congestion"
        " control, or a C++ header with a transport; may be repeated",
    )


def plugin(text: str) -> Path:
    """Load a plugin and return its path. Raises ArgumentTypeError."""
    path = Path(text)
    try:
        plugins.use(path)
    except plugins.PluginError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return path


def at_least_one(text: str) -> int:
    """Return a whole number of at least 1. Raises ArgumentTypeError for any other text."""
    return _whole(text, 1)


def seed(text: str) -> int:
    """Return a seed, a whole number of at least 0. Raises ArgumentTypeError."""
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, not {shortened(text)}")
    return int(text)


def load_share(text: str) -> float:
    """Return a load as a share of a link's rate. Raises ArgumentTypeError."""
    return number(text, lambda value: 0 < value < 1, "a load above 0 and below 1")


def above_zero(text: str) -> float:
    """Return a number above 0. Raises ArgumentTypeError."""
    return number(text, lambda value: 0 < value < math.inf, "a number above 0")


def rate(text: str) -> int:
    """Return a rate such as 100Mbit in bit/s. Raises ArgumentTypeError."""
    try:
        return rate_bps("--rate", text)
    except FieldError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def seconds(text: str) -> float:
    """Return a time above 0. Raises ArgumentTypeError."""
    what = f"a number of seconds above 0 and at most {LONGEST_S:g}"
    return number(text, lambda value: 0 < value <= LONGEST_S, what)


def number(text: str, allows: Callable[[float], bool], what: str) -> float:
    """Return a number that is allowed. `what`: the allowed numbers in words. Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not allows(value):
        raise argparse.ArgumentTypeError(f"must be {what}, not {shortened(text)}")
    return value


def of_kind(kind: kinds.Outside) -> Callable[[str], Any]:
    """Return a type that reads a value as the services read their settings of this kind, before any work is done."""

    def read(text: str) -> Any:
        try:
            value = kind.read("", text)
        except FieldError as error:
            raise argparse.ArgumentTypeError(error.problem) from None
        if problem := kind.problem(value):
            raise argparse.ArgumentTypeError(problem)
        return value

    return read


folder: Callable[[str], Path] = of_kind(kinds.Folder())
file: Callable[[str], Path] = of_kind(kinds.FileToWrite())


def existing_folder(text: str) -> Path:
    """Return the path of a folder that exists. Raises ArgumentTypeError."""
    path = Path(text)
    if not text or not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text or 'an empty text'} is no folder; give one that exists")
    return path


def life(longest_s: int) -> Callable[[str], int]:
    """Return a type that reads the lifetime of a token, such as 12h, in seconds. It must end."""

    def read(text: str) -> int:
        try:
            life_s = kinds.Age().read("", text)
        except FieldError as error:
            raise argparse.ArgumentTypeError(error.problem) from None
        if not 1 <= life_s <= longest_s:
            raise argparse.ArgumentTypeError(
                f"must be 1s to {longest_s // DAY_S}d, because a token must end, not {shortened(text)}"
            )
        return int(life_s)

    return read


def store_url(text: str) -> str:
    """Return the URL of a store. Raises ArgumentTypeError if it cannot be one; PostgreSQL is not asked."""
    if kinds.has_password(text):
        raise argparse.ArgumentTypeError(kinds.PASSWORD_REMEDY)
    backend, separator, place = text.partition("://")
    if not separator or backend.partition("+")[0] not in ("sqlite", "postgresql"):
        raise argparse.ArgumentTypeError(
            f"must be sqlite:////PATH/store.db or postgresql+psycopg://…, not {shortened(text)}"
        )
    if backend == "sqlite":
        if not place.startswith("/") or place == "/":
            raise argparse.ArgumentTypeError(
                f"names no file: write sqlite:////PATH/store.db, not {shortened(text)}"
            )
        path = Path(place.removeprefix("/"))
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise argparse.ArgumentTypeError(
                f"{path} cannot be a store: its folder must exist, and it must be a file"
            )
    return text


def read_toml_file(path: Path, remedy: str = "give a TOML file") -> dict[str, Any]:
    """Return the document of a file. Raises SluiceError."""
    try:
        return read_toml(path)
    except OSError as error:
        raise SluiceError(f"cannot read {path}: {error.strerror}; {remedy}") from None
    except NotToml as error:
        raise SluiceError(f"{path} is not TOML: {error}") from None


# ── Words that no parser knows ─────────────────────────────────────────────────────────────────────────────────────


def completed(
    action: argparse.Action, words: Callable[[], Iterable[str]], *, files: tuple[str, ...] = ()
) -> None:
    """Let an argument be completed by these words, and by the names of files with these endings."""

    def complete(prefix: str, **_: Any) -> list[str]:
        matching = [word for word in words() if word.startswith(prefix)]
        if files:
            from argcomplete.completers import FilesCompleter

            matching += FilesCompleter(files)(prefix)
        return matching

    action.completer = complete  # type: ignore[attr-defined]


def scenarios() -> list[str]:
    """Return the names of the included scenarios."""
    from sluice.runs.files import scenario_names

    return scenario_names()


def schemes() -> list[str]:
    """Return the names of all schemes."""
    from sluice.policy.schemes import SCHEMES

    return list(SCHEMES)


def policy_keys() -> list[str]:
    """Return the start of a setting for each key of a policy, and the settings of the scheme."""
    from sluice.policy.schema.fields import POLICY_FIELDS

    return [*(f"{field.name}=" for field in POLICY_FIELDS), *(f"scheme={name}" for name in schemes())]


def hosts() -> list[str]:
    """Return the hosts of the running testbeds."""
    from sluice.commands.inside import running_testbeds

    return [host.name for bed in running_testbeds() for host in bed.topology.hosts]


def ports() -> list[str]:
    """Return the ports of the running testbeds."""
    from sluice.commands.inside import running_testbeds

    return [port.id for bed in running_testbeds() for port in bed.topology.ports]


def testbeds() -> list[str]:
    """Return the process ids of the running testbeds."""
    from sluice.commands.inside import running_testbeds

    return [str(bed.pid) for bed in running_testbeds()]
