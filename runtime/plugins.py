# SPDX-License-Identifier: Apache-2.0
"""Parts from outside the tree: schemes with their queue rules, congestion controls, topologies, and workloads by name.

A plugin is a congestion control in one C header (`runtime/control_files.py`), which is also a scheme of its name: plain
queues that mark, under that control. Or it is a transport that is not TCP in one C++ header, and a scheme with Homa's
ports. Or it is a Python module of the same form as a file in the tree:

- every `Scheme` in it is a scheme, as in policy/schemes/ (its queue rule may be its own);
- with KIND, Parameters and build, it is a topology, as in topologies/;
- WORKLOADS maps names to .cdf files, as in sluice/data/workloads.

Plugins are the files in $SLUICE_PLUGINS and the entry points of the group "sluice.plugins" of installed packages. The
environment variable reaches every process of a run, so the controller, the web process and the agents know them, too.
"""

import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from sluice.policy import controls, tags
from sluice.policy.controls import Need
from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.network.graph import Links
from sluice.policy.schemes import SCHEMES, Marking, QueueRule, Scheme
from sluice.policy.units import PACKET_BYTES
from sluice.runtime import control_files
from sluice.runtime.toml import is_file

RAMP_BYTES = (65 * PACKET_BYTES, 130 * PACKET_BYTES)
"""Where ports begin to mark by chance, and where they mark all packets: K of the papers, and twice that."""
VARIABLE = "SLUICE_PLUGINS"
"""Paths of files, separated by colons."""
GROUP = "sluice.plugins"
"""The group of entry points. Each names a module."""


class PluginError(SluiceError):
    """A plugin cannot be loaded. The message names it and the place of the error."""


@dataclass(frozen=True)
class Plugin:
    """A plugin that is loaded."""

    source: str
    """The path of its file, or its entry point."""
    digest: str
    """SHA-256 of its file."""
    schemes: tuple[str, ...]
    topology: str | None
    workloads: tuple[str, ...]


_COLOURS = ("#762a83", "#1b7837", "#8c510a", "#01665e", "#c51b7d", "#b2182b")
"""Of schemes that have no colour of their own, in the order in which they are loaded."""
TOPOLOGIES: dict[str, Any] = {}
"""KIND → the module, for the topologies of all plugins."""
WORKLOADS: dict[str, Path] = {}
"""Name → .cdf file, for the workloads of all plugins."""
LOADED: dict[str, Plugin] = {}
"""Source → plugin."""


def use(file: Path) -> None:
    """Load a plugin, also in the processes that this one starts. Raises PluginError."""
    path = str(file.resolve())
    _load_file(Path(path))
    if path not in (given := _files()):
        os.environ[VARIABLE] = os.pathsep.join([*given, path])


def load() -> None:
    """Load all plugins that are not loaded yet. Raises PluginError that names the plugin."""
    for point in _entry_points(tuple(sys.path)):
        source = f"entry point {point.name} = {point.value}"
        if source in LOADED:
            continue
        try:
            module = point.load()
        except Exception as error:
            raise PluginError(f"plugin {source}: {_place(error)}") from None
        _add(source, module)
    for path in _files():
        _load_file(Path(path))


@cache
def _entry_points(_path: tuple[str, ...]) -> EntryPoints:
    return entry_points(group=GROUP)  # reads the metadata of all packages on the path


def _files() -> list[str]:
    return [str(Path(path).resolve()) for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path]


def _load_file(path: Path) -> None:
    if str(path) in LOADED:
        return
    if path.suffix in (".h", ".hpp"):
        _add_control(path)
        return
    if path.suffix != ".py" or not is_file(path):
        raise PluginError(
            f"plugin {path}: there is no such file of Python (.py), C (.h) or C++ (.hpp); give the path of one"
        )
    name = f"sluice_plugin_{path.stem}_{len(LOADED)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a .py file has a loader"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PluginError(f"plugin {path}: {_place(error)}") from None
    _add(str(path), module)


def _add_control(path: Path) -> None:
    """Register the control of a file, and the scheme of its name."""
    try:
        control = control_files.read(path)
    except control_files.ControlFileError as error:
        raise PluginError(f"plugin: {error}") from None
    _refuse_known(str(path), "scheme", {control.name: control}, SCHEMES)
    marking = Marking.RED if control.wants_ramp else Marking.PORT if control.reads_marks else Marking.NONE
    scheme = Scheme(
        name=control.name,
        title=control.name,
        paper=path.name,
        control=control,
        marking=marking,
        marks_bytes={Marking.NONE: (), Marking.RED: RAMP_BYTES}.get(marking, Scheme.marks_bytes),
        colour=_COLOURS[len(LOADED) % len(_COLOURS)],
        about=f"One queue under the congestion control of {path.name}.",
    )
    if control.needs is Need.GRANTS:
        about = f"The transport of {path.name}, and queues by the level that a packet's tag names."
        scheme = replace(scheme, queue_rule=QueueRule.BY_LEVEL, queues=8, about=about)
    SCHEMES[control.name] = scheme
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    LOADED[str(path)] = Plugin(str(path), digest, (control.name,), None, ())


def _place(error: Exception) -> str:
    """Return the innermost line of an error, and the error."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    if isinstance(error, ModuleNotFoundError) and error.name in ("policy", "topologies"):
        return f"{error}: import from sluice.plugin, which has all that a plugin may import"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename}, line {frame.lineno}: {type(error).__name__}: {error}"


def _add(source: str, module: ModuleType) -> None:
    """Register the parts of a module. After an error, none of them is registered."""
    schemes = {
        value.name: value
        for value in vars(module).values()
        if isinstance(value, Scheme) and SCHEMES.get(value.name) is not value  # else imported from elsewhere
    }
    topology, workloads = _topology(source, module), _workloads(source, module)
    if not (schemes or topology or workloads):
        raise PluginError(
            f"plugin {source}: has no Scheme, no topology (KIND, Parameters, build) and no WORKLOADS"
        )
    _refuse_known(source, "scheme", schemes, SCHEMES)
    _refuse_known(source, "topology", topology, TOPOLOGIES)
    _refuse_known(source, "workload", workloads, WORKLOADS)
    SCHEMES.update(schemes)
    try:
        for scheme in schemes.values():
            _check(source, scheme)
    except PluginError:
        for name in schemes:
            del SCHEMES[name]
        raise
    TOPOLOGIES.update(topology)
    WORKLOADS.update(workloads)
    digest = hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest()
    LOADED[source] = Plugin(source, digest, tuple(schemes), next(iter(topology), None), tuple(workloads))


def _refuse_known(source: str, what: str, new: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name in new:
        if name in known:
            raise PluginError(f'plugin {source}: there is a {what} "{name}" already; choose another name')


def _topology(source: str, module: ModuleType) -> dict[str, Any]:
    if not hasattr(module, "KIND"):
        return {}
    parameters, build = getattr(module, "Parameters", None), getattr(module, "build", None)
    if not (isinstance(parameters, type) and issubclass(parameters, Links) and callable(build)):
        raise PluginError(
            f"plugin {source}: a topology needs KIND, a class Parameters(sluice.plugin.Links), and a function "
            "build(values)"
        )
    return {str(module.KIND): module}


def _workloads(source: str, module: ModuleType) -> dict[str, Path]:
    files = getattr(module, "WORKLOADS", {})
    if not isinstance(files, Mapping):
        raise PluginError(
            f"plugin {source}: WORKLOADS must map names to .cdf files, not {type(files).__name__}"
        )
    for name, path in files.items():
        if not is_file(Path(path)):
            raise PluginError(f'plugin {source}: WORKLOADS["{name}"]: there is no file {path}')
    return {str(name): Path(path) for name, path in files.items()}


def _check(source: str, scheme: Scheme) -> None:
    """Check that the scheme's defaults make a policy, and that its queue rule has a queue for each tag."""
    from sluice.policy.schema.desired import Policy

    if scheme.control not in controls.known():
        raise PluginError(
            f"plugin {source}: the control of scheme {scheme.name} must be one of sluice.plugin.controls: "
            f"{', '.join(control.name.upper() for control in controls.CONTROLS)}, or "
            "sluice.plugin.control_file(path) for one of your own (docs/how-to/add-a-control.md)"
        )
    rule = scheme.queue_rule
    if not rule.allows(scheme.queues):
        raise PluginError(f"plugin {source}: queue rule {rule.label} does not allow {scheme.queues} queues")
    try:
        policy = Policy.from_document({"scheme": scheme.name})
        queues = rule.map(policy.thresholds, queues=policy.queues, untagged_queue=policy.untagged_queue)
    except FieldError as error:
        raise PluginError(f"plugin {source}: the defaults of scheme {scheme.name}: {error}") from None
    except Exception as error:
        raise PluginError(f"plugin {source}: queue rule {rule.label}: {_place(error)}") from None
    if len(queues) != tags.TAG_COUNT or not all(queue in range(policy.queues) for queue in queues):
        raise PluginError(
            f"plugin {source}: queue rule {rule.label}: its map must have {tags.TAG_COUNT} queues, each "
            f"from 0 to {policy.queues - 1}, not {len(queues)} from {min(queues)} to {max(queues)}"
        )
