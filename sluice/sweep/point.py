# SPDX-License-Identifier: Apache-2.0
"""One point of a sweep, as a job of its own: `python -m sluice.sweep.point DIR NAME`."""

import json
import os
import sys
from pathlib import Path

from sluice.policy.errors import SluiceError
from sluice.runs.files import resolve, runner
from sluice.runs.progress import ProgressFile
from sluice.runtime import plugins
from sluice.runtime.command import CommandFailed
from sluice.runtime.process import die_with_parent
from sluice.sweep.points import CONFIG, STATUS
from sluice.terminal import end_in_order


def main(folder: Path, name: str) -> int:
    """Return 0 if the bundle is complete, 2 for an error that a user can correct. A defect ends
    with its traceback."""
    end_in_order()
    die_with_parent()
    config = json.loads((folder / CONFIG).read_text())
    point, on = config["points"][name], config["on"]
    status = ProgressFile(folder / STATUS / name, name=name, scheme=point["scheme"], on=on)
    try:
        plugins.load()
        os.chdir(config["cwd"])  # paths in a scenario are relative to where the sweep was started
        runner(on)(resolve(point["document"]), folder / name, status.report)
    except (SluiceError, CommandFailed, TimeoutError) as error:
        print(f"sluice: {error}", file=sys.stderr)
        status.fail(str(error))
        return 2
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        status.fail(f"{type(error).__name__}: {error}")
        raise
    status.keep()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2]))
