# SPDX-License-Identifier: Apache-2.0
"""One point of a sweep, as a job of its own: `python -m sluice.sweep.point DIR NAME`."""

import json
import os
import sys
from pathlib import Path

from sluice.policy.errors import SluiceError
from sluice.runs.fabrics import runner
from sluice.runs.files import resolve
from sluice.runs.progress import flow_count
from sluice.runtime import plugins
from sluice.runtime.command import CommandFailed
from sluice.runtime.process import die_with_parent
from sluice.sweep.points import CONFIG
from sluice.sweep.progress import DONE, FAILED, StatusFile
from sluice.terminal import end_in_order


def main(folder: Path, name: str) -> int:
    """Return 0 if the bundle is complete, 2 for an error that a user can correct. A defect ends
    with its traceback."""
    end_in_order()
    die_with_parent()
    status = StatusFile(folder, name)
    try:
        plugins.load()
        _run(folder, name, status)
    except (SluiceError, CommandFailed, TimeoutError) as error:
        print(f"sluice: {error}", file=sys.stderr)
        status.end(FAILED, str(error))
        return 2
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        status.end(FAILED, f"{type(error).__name__}: {error}")
        raise
    status.end(DONE)
    return 0


def _run(folder: Path, name: str, status: StatusFile) -> None:
    """Run the point `name` of a sweep's configuration and write its bundle into its folder."""
    config = json.loads((folder / CONFIG).read_text())
    os.chdir(config["cwd"])  # paths in a scenario are relative to where the sweep was started
    resolved = resolve(config["points"][name]["document"])
    flows = flow_count(resolved.scenario)
    runner(config["on"])(resolved, folder / name, lambda progress: status.progress(progress.recorded, flows))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2]))
