# SPDX-License-Identifier: Apache-2.0
"""Congestion controls from files of C, and transports from files of C++: what a file says of itself
(`dataplane/laws/hooks.h`, `simulator/core/transport/messages/message.hpp`).

The simulator and the agents compile the file. Other processes need only its name, its parameters and its hooks, so
they read the macros and need no compiler.
"""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from sluice.policy import controls
from sluice.policy.controls import CONTROLS, FROM_FILES, HOMA, PREFIX, Control, Echo, Need, Parameter
from sluice.policy.errors import SluiceError
from sluice.runtime.toml import is_file

_NAME = re.compile(r"[a-z][a-z0-9_]{0,7}")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(SL_\w+)(?:\((\w+)[^)]*\))?[ \t]*(.*)$", re.MULTILINE)
_HOOKS = ("SL_ON_WINDOW", "SL_ON_START", "SL_ON_ACK", "SL_ON_LOSS", "SL_ON_TIMEOUT")
_ECHOES = {"SL_ECHO_EXACT": Echo.EXACT, "SL_ECHO_STANDARD": Echo.STANDARD, "SL_ECHO_NONE": None}
_FALLBACKS = {Echo.EXACT: "dctcp", Echo.STANDARD: "reno", None: "cubic"}


class ControlFileError(SluiceError):
    """A file is no congestion control. The message names the file and what is missing."""


def compiled(control: Control, suffix: str, compiler: Callable[..., str]) -> Path:
    """Return what a compiler makes of a control. The same text is compiled once.

    `compiler` compiles the control with these arguments, and returns what it prints.
    """
    text = compiler("-E", "-P")
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice" / "controls"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{control.name}-{sha256(text.encode()).hexdigest()[:16]}{suffix}"
    if not target.exists():
        partial = target.with_suffix(f".{os.getpid()}")
        compiler("-o", str(partial))
        partial.replace(target)  # several processes of a sweep may have compiled it at once
    return target


def read(path: Path) -> Control:
    """Return the control of a file, and add it to `FROM_FILES`. Raises ControlFileError."""
    if not is_file(path):
        raise ControlFileError(
            f"control {path}: there is no such file; give the path of a C header (.h, or .hpp for a transport)"
        )
    text = _COMMENT.sub(" ", path.read_text(errors="replace")).replace("\\\n", " ")
    macros = {name: (argument, value.strip()) for name, argument, value in _MACRO.findall(text)}
    control = _control(path, macros)
    other = next((one for one in (*CONTROLS, *FROM_FILES.values()) if one.name == control.name), control)
    if other != control:
        where = f" from {other.file}" if other.file else ""
        raise ControlFileError(
            f"control {path}: there is a control {control.name}{where} already; choose another name"
        )
    FROM_FILES[control.name] = control
    return control


def _control(path: Path, macros: dict[str, tuple[str, str]]) -> Control:
    is_transport = path.suffix == ".hpp"
    macro = "SL_TRANSPORT" if is_transport else "SL_CONTROL"
    name = macros.get(macro, ("", ""))[1]
    if not _NAME.fullmatch(name):
        raise ControlFileError(
            f"control {path}: needs #define {macro} with a name of at most 8 small letters, digits and "
            f"underscores, not {name or 'nothing'}"
        )
    parameters = _parameters(path, *macros.get("SL_PARAMETERS", ("P", "")))
    if is_transport:
        return replace(HOMA, name=name, kernel_name=name, file=str(path.resolve()), parameters=parameters)
    hooks = {hook for hook in _HOOKS if hook in macros}
    owns_window = "SL_ON_ACK" in hooks
    if not hooks & {"SL_ON_ACK", "SL_ON_WINDOW"}:
        raise ControlFileError(
            f"control {path}: has no hook; define SL_ON_WINDOW or SL_ON_ACK as the name of a function"
        )
    for hook in ("SL_ON_LOSS", "SL_ON_TIMEOUT"):
        if hook in hooks and not owns_window:
            raise ControlFileError(
                f"control {path}: {hook} needs SL_ON_ACK, because without it the window moves as Reno's"
            )
    word = macros.get("SL_ECHO", ("", "SL_ECHO_EXACT"))[1]
    if word not in _ECHOES:
        raise ControlFileError(f"control {path}: SL_ECHO must be one of {', '.join(_ECHOES)}, not {word}")
    echo = _ECHOES[word]
    return Control(
        name,
        PREFIX + name,
        echo or Echo.EXACT,
        fallback=_FALLBACKS[echo],
        of_window=not owns_window,
        file=str(path.resolve()),
        parameters=parameters,
        reads_marks=echo is not None,
        wants_ramp=echo is not None and macros.get("SL_RAMP", ("", "0"))[1] == "1",
        needs=Need.TELEMETRY if macros.get("SL_TELEMETRY", ("", "0"))[1] == "1" else None,
    )


def _parameters(path: Path, macro: str, text: str) -> tuple[Parameter, ...]:
    entry = re.compile(rf'{macro}\(\s*(\w+)\s*,\s*(\d+)\s*,\s*"([^"]*)"\s*\)')
    found = tuple(Parameter(name, int(value), help) for name, value, help in entry.findall(text))
    most = controls.PARAMETERS_MAX
    if entry.sub("", text).strip() or len(found) > most:
        raise ControlFileError(
            f"control {path}: SL_PARAMETERS({macro}) must have at most {most} entries, each {macro}(name, "
            'default, "help") with a whole number as default'
        )
    for parameter in found:
        if parameter.default >= 2**32:
            raise ControlFileError(
                f"control {path}: the default of {parameter.name} must be below 2^32, not {parameter.default}"
            )
    return found
