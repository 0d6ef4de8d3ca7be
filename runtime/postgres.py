# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL server for a test or a measurement: in a temporary folder, on a Unix socket, unprivileged.

    with PostgresServer.start() as server:
        engine = open_store(server.new_database())

It needs Debian's package postgresql. It does not touch the server that this package starts for the system. The kernel
ends the server with the thread that started it, and `stop` removes the folder.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.process import spawn
from sluice.runtime.wait import wait_until

USERS = ("postgres", "nobody")
"""If this process is root, the server runs as the first of these users that exists: PostgreSQL refuses root."""
PORT = 5432
"""Only the name of the socket uses it."""
START_S = 60.0
_NONE: Mapping[str, str] = {}


def programs() -> Path:
    """Return the folder of initdb and postgres. Raises EnvironmentLacking if they are not installed."""
    servers = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if servers:
        return servers[-1].parent
    on_path = shutil.which("postgres")
    if on_path is None:
        raise EnvironmentLacking("PostgreSQL's server is missing; on Debian: apt-get install postgresql")
    return Path(on_path).resolve().parent


class PostgresServer:
    """A running server, made by `start`. It is a context manager."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._bin = programs()
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-pg-"))
        self._settings = settings
        self._data = self.folder / "data"
        self._user = _server_user()
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)

    @classmethod
    def start(cls, settings: Mapping[str, str] = _NONE) -> PostgresServer:
        """Make a cluster, start its server with these settings and wait until it answers."""
        server = cls(settings)
        try:
            server._make_cluster()
            server.run()
        except BaseException:
            server.stop()
            raise
        return server

    def _make_cluster(self) -> None:
        if self._user:
            shutil.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        options = ["--auth=trust", "--username=sluice", "--encoding=UTF8", "--no-locale", "--no-sync"]
        run([*self._become(), str(self._bin / "initdb"), "-D", str(self._data), *options])

    def run(self) -> None:
        """Start the server. It may have run before."""
        address = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "port": str(PORT),
        }
        argv = [*self._become(), str(self._bin / "postgres"), "-D", str(self._data)]
        for name, value in {**self._settings, **address}.items():
            argv += ["-c", f"{name}={value}"]
        self._process = spawn(argv, log_file=self.folder / "server.log")
        wait_until(self._answers, "PostgreSQL answers", timeout_s=START_S)

    def _become(self) -> list[str]:
        # The change of user clears the parent-death signal of `spawn`, so setpriv sets it again. QUIT is PostgreSQL's
        # immediate shutdown, which also frees its shared memory.
        death = ["setpriv", "--pdeathsig", "QUIT"]
        if not self._user:
            return death
        uid, gid = self._user.pw_uid, self._user.pw_gid
        return [*death, f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            log = (self.folder / "server.log").read_text(errors="replace")
            raise EnvironmentLacking(f"PostgreSQL's server did not start:\n{log}")
        try:
            self.sql("SELECT 1")
        except CommandFailed:
            return False
        return True

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Return what psql prints. Raises CommandFailed."""
        host = ["-h", str(self.folder), "-p", str(PORT), "-U", "sluice", "-d", database]
        return run([str(self._bin / "psql"), "-X", "-q", "-t", "-A", *host, "-c", statement])

    def new_database(self) -> str:
        """Return the store URL of a new database."""
        name = f"store{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://sluice@/{database}?host={self.folder}&port={PORT}"

    def restart(self, *, crash: bool = False) -> None:
        """End the server and start it again."""
        self.end(crash=crash)
        self.run()

    def end(self, *, crash: bool = False) -> None:
        """End the server in order (it closes every connection and writes all data), or as a crash does."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
        self._process.wait(START_S)
        self._process = None

    def stop(self) -> None:
        """End the server and remove its folder. A second call does nothing."""
        self.end(crash=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _server_user() -> pwd.struct_passwd | None:
    """Return the server's user if this process is root, otherwise None: the server has this process's user."""
    if os.geteuid() != 0:
        return None
    for name in USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise EnvironmentLacking(
        f"PostgreSQL does not run as root: one of the users {', '.join(USERS)} must exist"
    )
