# SPDX-License-Identifier: Apache-2.0
"""Libraries that the plain installation leaves out, because one command needs them: the extras of pyproject.toml."""

from collections.abc import Mapping
from importlib.util import find_spec

from sluice.policy.errors import EnvironmentLacking

EXTRAS: Mapping[str, str] = {
    "argcomplete": "completion",
    "matplotlib": "plots",
    "psycopg": "postgresql",
    "scipy": "experiments",
    "snakemake": "cluster",
    "snakemake_executor_plugin_slurm": "cluster",
}
"""Library → the extra that brings it."""


def need(library: str, what: str, extra: str = "") -> None:
    """Raise EnvironmentLacking with the command that installs the extra, if a library is missing.

    `what` needs the library, as the user wrote it. `extra` is for a library that several extras bring. The wheel
    sluice-sim has no store.
    """
    if find_spec(library) is None:
        project = "sluice" if find_spec("sluice.store") else "sluice-sim"
        raise EnvironmentLacking(
            f"{what} needs {library}, which is not installed: pip install '{project}[{extra or EXTRAS[library]}]'"
        )
