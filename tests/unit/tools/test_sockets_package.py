# SPDX-License-Identifier: Apache-2.0
"""The source of the wheel sluice-sockets works alone: its tests run where nothing else can be imported."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from sluice.policy.version import VERSION
from tools import sockets_package

ALONE = """
import sys
sys.path[:] = [path for path in sys.path if "site-packages" not in path] + [sys.argv[1]]
import sluice_sockets
from sluice_sockets import WrongField, pack_flow

assert len(pack_flow(size_bytes=7, deadline_s=0.025)) == 56
try:
    sluice_sockets.declare(None, deadline_s="5ms")
except WrongField as error:
    print(error)
ours = {name.partition(".")[0] for name in sys.modules}
assert not ours & {"policy", "hostagent", "runtime"}, ours
"""


def test_the_modules_import_nothing_but_themselves_and_the_standard_library(tmp_path: Path) -> None:
    sockets_package.lay_out(tmp_path / "source")
    argv = [sys.executable, "-I", "-c", ALONE, str(tmp_path / "source")]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "deadline_s: must be a number of seconds, not '5ms': write 0.005\n"


def test_no_module_names_this_project() -> None:
    for name, text in sockets_package.modules().items():
        assert not re.search(r"^\s*(from|import) (policy|hostagent|runtime)\b", text, re.MULTILINE), name


def test_every_module_is_in_the_wheel() -> None:
    sources = {path.name for path in (sockets_package.ROOT / "hostagent" / "sockets").glob("*.py")}
    assert sockets_package.modules().keys() == {*sources, "user_errors.py"}


def test_the_project_file_has_no_dependency() -> None:
    project = tomllib.loads(sockets_package.project())["project"]
    assert (project["name"], project["version"], project["dependencies"]) == ("sluice-sockets", VERSION, [])
