# SPDX-License-Identifier: Apache-2.0
"""Compiles the simulator's core into the wheel, so that who installs the wheel needs no compiler.

An editable installation compiles nothing here: the simulator compiles its core in place when a source has changed.
"""

import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))  # a build in isolation has no path to the project


class _WithCore(build_py):
    def run(self) -> None:
        if not self.editable_mode:
            from sluice.simulator.build import build

            build()
        super().run()


class _Compiled(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build_py": _WithCore}, distclass=_Compiled)
