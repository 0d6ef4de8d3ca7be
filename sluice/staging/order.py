# SPDX-License-Identifier: Apache-2.0
"""What a node needs to run the points of a job: their scenarios, the files that these name, and plugins."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sluice.policy.errors import SluiceError
from sluice.runtime.paths import is_file
from sluice.sweep_folder import CONFIG

PLUGINS = "SLUICE_PLUGINS"
Order = dict[str, Any]
"""on; points: name → entry of sweep.json; files: relative path → base64; plugins: file name and base64 of each."""


def named_files(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the files that scenarios name, below the present folder. Raises SluiceError for a file elsewhere."""
    found = {text for document in documents for text in _texts(document) if is_file(Path(text))}
    for text in sorted(found):
        if not Path(text).resolve().is_relative_to(Path.cwd()) or Path(text).is_absolute():
            raise SluiceError(
                f"--staged: the scenario names {text}, and a node has no such folder; put the file below the folder in "
                "which you start the sweep, and name it by a relative path"
            )
    return sorted(found)


def make_order(config: Mapping[str, Any], job: str, missing: Iterable[str]) -> Order:
    """Return the order for these points of a job. `config` is the content of sweep.json."""
    place = Path(config["cwd"])
    plugins = [Path(one) for one in os.environ.get(PLUGINS, "").split(os.pathsep) if one]
    return {
        "job": job,
        "on": config["on"],
        "points": {name: config["points"][name] for name in missing},
        "files": {name: _packed(place / name) for name in config["files"]},
        "plugins": [[one.name, _packed(one)] for one in plugins],
    }


def lay_out(order: Order, folder: Path) -> dict[str, str]:
    """Write the files of an order into an empty folder, and return the environment of its points."""
    place = folder / "cwd"
    place.mkdir()
    for name, content in order["files"].items():
        _unpack(place / name, content)
    plugins = []
    for index, (name, content) in enumerate(order["plugins"]):
        plugins.append(folder / "plugins" / str(index) / name)
        _unpack(plugins[-1], content)
    config = {"on": order["on"], "cwd": str(place), "points": order["points"]}
    (folder / CONFIG).write_text(json.dumps(config))
    return {PLUGINS: os.pathsep.join(map(str, plugins))}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _packed(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _unpack(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.b64decode(content))
