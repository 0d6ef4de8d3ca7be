# SPDX-License-Identifier: Apache-2.0
"""Builds the Debian packages and the wheels: `python -m tools.packages [--version VERSION] [--only deb|wheel]`.

Everything is made in build/packages. pip brings the libraries that Debian 12 lacks or has too old, in the versions of
constraints.txt, so that nothing is downloaded when a package is installed. BPF objects are compiled here.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from email.utils import formatdate
from pathlib import Path

from sluice.commands.completion import script
from sluice.policy.version import VERSION

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "packages"
VENDOR = OUT / "vendor"
TEXTS = ROOT / "packaging"
HERE = "usr/lib/sluice"

ROOMS: Mapping[str, Sequence[str]] = {
    "common": ("policy", "runtime", "sluice"),
    "store": ("store",),
    "controller": ("controller",),
    "web": ("webui",),
    "agent": ("dataplane", "hostagent", "topologies"),
}
"""Package → the rooms that it has."""

LIBRARIES: Mapping[str, Sequence[str]] = {
    "common": ("argcomplete", "cryptography", "rich", "tomli-w"),
    "store": ("numpy", "sqlalchemy", "psycopg[binary]"),
    "controller": ("os-ken",),
    "web": (
        "flask",
        "flask-openapi3",
        "flask-openapi3-swagger",
        "jinja2",
        "prometheus-client",
        "pydantic",
        "tornado",
    ),
    "agent": ("cffi",),
}
"""Package → the libraries that it has, with those that they need. Debian 12's cryptography is too old."""

SERVICES: Mapping[str, Sequence[str]] = {
    "controller": ("controller",),
    "web": ("web",),
    "agent": ("agent", "port-agent"),
}
"""Package → its services, each with a unit and a configuration file."""

WHEEL_ROOMS = ("policy", "runtime", "topologies", "simulator", "sluice")
"""The rooms of the wheel sluice-sim. Of `topologies` it needs the networks as graphs."""
WHEEL_LIBRARIES = ("argcomplete", "jinja2", "matplotlib", "numpy", "pyarrow", "rich")
"""Some of them are extras of the whole project. The wheel has its extra `cluster`, too."""

COMPLETIONS: Mapping[str, str] = {
    "bash": "usr/share/bash-completion/completions/sluice",
    "zsh": "usr/share/zsh/vendor-completions/_sluice",
}
"""Shell → the place where it looks for the script that completes the words of `sluice`."""
RULES = "usr/share/sluice/prometheus/sluice.rules.yml"
"""The rules for Prometheus, in the package of the web process."""

_FOR_CHANGES = ("fetch-vendor", "package.json", "package-lock.json", "tsconfig.json", "documents.gen.d.ts")
"""Files of the page that only someone who changes it needs."""

BELOW: Mapping[str, Sequence[str]] = {
    "common": (),
    "store": ("common",),
    "controller": ("common", "store"),
    "web": ("common", "store"),
    "agent": ("common",),
}
"""Package → the packages that it depends on."""

_NOT_RUN = (
    *("ncclient", "paramiko", "lxml", "bcrypt", "cryptography", "nacl", "pynacl", "invoke"),
    *("cffi", "_cffi_backend", "pycparser"),
    *("eventlet", "dns", "greenlet", "ovs", "sortedcontainers", "webob", "routes", "repoze"),
    *("setuptools", "_distutils_hack", "distutils_precedence"),
)
"""Libraries that os-ken installs for NETCONF, BGP, OVSDB and its REST server. The controller imports none of them."""
_SOURCES = (".pyi", ".pyx", ".pxd", ".h", ".c", ".a")
_USELESS = ("tests", "test", "__pycache__", "bin", "include", "testing")


def run(*argv: str | Path, cwd: Path = ROOT, **variables: str) -> None:
    """Run a command. Raises CalledProcessError."""
    subprocess.run(list(map(str, argv)), cwd=cwd, check=True, env={**os.environ, **variables})


def vendor() -> None:
    """Install the libraries of each package into a folder of its own, if they are not there yet."""
    stamp = VENDOR / "stamp"
    wanted = f"{sorted(LIBRARIES.items())}\n{(ROOT / 'constraints.txt').read_text()}"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(VENDOR, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    for package, libraries in LIBRARIES.items():
        run(*pip, "-c", "constraints.txt", "--target", VENDOR / package, *libraries)
    stamp.write_text(wanted)


def tracked(*folders: str) -> list[Path]:
    """Return the files of some folders that belong to the project, relative to ROOT."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", *folders],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [path for name in listed.stdout.split("\0") if name and (ROOT / (path := Path(name))).is_file()]


def installed(path: Path) -> Path:
    """Return where a file of a room is in a package: `store/flows.py` in `sluice/store`, as its import name says."""
    return path if path.parts[0] == "sluice" else "sluice" / path


def copy(files: Iterable[Path], target: Path) -> None:
    """Copy files of rooms to the places that their import names say."""
    for path in files:
        place = target / installed(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, place)


def lay_out(package: str, tree: Path, owners: dict[str, str]) -> None:
    """Put the files of a package where they will be. `owners`: library file → the package that has it."""
    files = (
        path for path in tracked(*ROOMS[package]) if path.suffix != ".md" and path.name not in _FOR_CHANGES
    )
    copy(files, tree / HERE)
    if package == "web":
        static = (ROOT / "webui/static/vendor").rglob("*")
        copy((path.relative_to(ROOT) for path in static if path.is_file()), tree / HERE)
        (tree / RULES).parent.mkdir(parents=True)
        shutil.copyfile(ROOT / "packaging/prometheus/sluice.rules.yml", tree / RULES)
    if package == "agent":
        objects = (ROOT / "dataplane/build").glob("*.bpf.o")
        copy((path.relative_to(ROOT) for path in objects), tree / HERE)
    if package == "common":
        command = tree / "usr/bin/sluice"
        command.parent.mkdir(parents=True)
        shutil.copyfile(TEXTS / "command", command)
        command.chmod(0o755)
        for shell, name in COMPLETIONS.items():
            (tree / name).parent.mkdir(parents=True)
            (tree / name).write_text(script(shell))
    _add_libraries(package, tree / HERE / "vendor", owners)
    for service in SERVICES.get(package, ()):
        config = tree / f"etc/sluice/{service}.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / f"packaging/etc/{service}.toml", config)
        config.with_name(f"{service}.toml.d").mkdir()


def _add_libraries(package: str, target: Path, owners: dict[str, str]) -> None:
    """Copy the libraries of a package, except what a package below has and what no service runs.

    Raises ValueError if two packages that can be installed without each other have the same file.
    """
    source = VENDOR / package
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        first = name.parts[0].lower().replace("-", "_")
        is_unused = (package == "controller" and first.startswith(_NOT_RUN)) or set(name.parts[:-1]) & set(
            _USELESS
        )
        is_source = name.suffix in _SOURCES or name.name in ("RECORD", "INSTALLER", "REQUESTED")
        if not path.is_file() or is_unused or is_source or owners.get(str(name)) in BELOW[package]:
            continue
        owner = owners.setdefault(str(name), package)
        if owner != package:
            raise ValueError(f"{name} is in {owner} and {package}: put its library into a package below both")
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)


def debian(version: str) -> None:
    """Build the Debian packages with debhelper."""
    run(sys.executable, "-m", "sluice.dataplane.build")
    vendor()
    source = OUT / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "packaging/debian", source / "debian")
    (source / "debian/changelog").write_text(changelog(version))
    for page, name in (("README.md", "README.md"), ("CHANGELOG.md", "NEWS.md")):
        shutil.copyfile(ROOT / page, source / name)
    owners: dict[str, str] = {}
    for package in ROOMS:
        lay_out(package, source / "debian" / f"sluice-{package}", owners)
        for service in SERVICES.get(package, ()):
            unit = f"sluice-{service}.service"
            where = source / "debian" / f"sluice-{package}" / "lib/systemd/system"
            where.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / "packaging/systemd" / unit, where / unit)
    manual = (TEXTS / "sluice.1").read_text()
    (source / "debian/sluice.1").write_text(manual.format(version=version))
    options = ("--build=binary", "--unsigned-changes", "--no-check-builddeps", "--no-pre-clean")
    run("dpkg-buildpackage", *options, cwd=source)


def changelog(version: str) -> str:
    """Return debian/changelog, which names the version and points to the project's own."""
    # The time of the last commit (epoch, s), so that two builds of one commit have the same dates.
    shown = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    when = formatdate(float(os.environ.get("SOURCE_DATE_EPOCH", shown.stdout.strip())), localtime=False)
    entry = "  * See /usr/share/doc/sluice-common/NEWS.md.gz."
    signature = f" -- The Sluice authors <sluice@localhost.localdomain>  {when}"
    return f"sluice ({version}) bookworm; urgency=medium\n\n{entry}\n\n{signature}\n"


def wheel() -> None:
    """Build the wheel sluice-sim: the simulator, its reports, and the commands that need no root."""
    run(sys.executable, "-m", "sluice.simulator.build")
    source = OUT / "wheel"
    shutil.rmtree(source, ignore_errors=True)
    copy((path for path in tracked(*WHEEL_ROOMS) if is_in_the_wheel(path)), source)
    copy([next((ROOT / "simulator").glob("_fabric.*.so")).relative_to(ROOT)], source)
    # Controls and transports from files are compiled against the laws.
    shutil.copytree(ROOT / "dataplane" / "laws", source / "sluice/simulator/laws")
    for name in ("README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    (source / "pyproject.toml").write_text(wheel_project())
    shutil.copyfile(TEXTS / "wheels/compiled.setup", source / "setup.py")
    build_wheel(source)


def build_wheel(source: Path) -> None:
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    run(*pip, "--wheel-dir", OUT, source)


def is_in_the_wheel(path: Path) -> bool:
    """Return whether a file of WHEEL_ROOMS is for the wheel: all but documents and what compiles the core."""
    return path.suffix != ".md" and (path.parts[:2] != ("simulator", "core") or path.suffix == ".hpp")


def wheel_project() -> str:
    """Return pyproject.toml of the wheel. The requirements of its libraries are those of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    every = sorted([*project["dependencies"], *extras["completion"], *extras["plots"]])
    needed = [
        requirement for requirement in every if re.split("[^a-z0-9-]", requirement)[0] in WHEEL_LIBRARIES
    ]
    return (
        (TEXTS / "wheels/sluice-sim.toml")
        .read_text()
        .format(
            version=VERSION,
            python=project["requires-python"],
            needed=json.dumps(needed),
            cluster=json.dumps(extras["cluster"]),
        )
    )


SOCKETS = "sluice_sockets"
"""The package of the wheel sluice-sockets: `hostagent/sockets` alone, for programs that declare their flows. It needs
none of this project, so its modules have names of their own. The text is the same."""
RENAMED: Mapping[str, str] = {
    "sluice.hostagent.sockets": SOCKETS,
    "sluice.policy.errors": f"{SOCKETS}.user_errors",
}
"""Module in this project → module in the wheel."""


def sockets_modules() -> dict[str, str]:
    """Return the modules of the wheel sluice-sockets: name of the file → its text."""
    sources = {path.name: path for path in sorted((ROOT / "hostagent/sockets").glob("*.py"))}
    sources["user_errors.py"] = ROOT / "policy/errors.py"
    texts = {name: path.read_text() for name, path in sources.items()}
    for old, new in RENAMED.items():
        texts = {name: text.replace(old, new) for name, text in texts.items()}
    return texts


def lay_out_sockets(folder: Path) -> None:
    """Write the whole source of the wheel sluice-sockets into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / SOCKETS).mkdir(parents=True)
    for name, text in sockets_modules().items():
        (folder / SOCKETS / name).write_text(text)
    (folder / SOCKETS / "py.typed").touch()
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    project = (TEXTS / "wheels/sluice-sockets.toml").read_text()
    (folder / "pyproject.toml").write_text(project.format(version=VERSION, python=python))
    shutil.copyfile(TEXTS / "wheels/sluice-sockets.md", folder / "README.md")
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.packages", description=__doc__)
    parser.add_argument("--only", choices=("deb", "wheel"), help="build one of both")
    parser.add_argument(
        "--version", default=VERSION, help="version of the Debian packages (default %(default)s)"
    )
    options = parser.parse_args(argv)
    if options.only != "deb":
        wheel()
        lay_out_sockets(OUT / "sockets")
        build_wheel(OUT / "sockets")
    if options.only != "wheel":
        debian(options.version)
    for path in sorted([*OUT.glob("*.deb"), *OUT.glob("*.whl")]):
        print(path.relative_to(ROOT), f"{path.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
