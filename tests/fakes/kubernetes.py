# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' API as far as Snakemake's executor uses it. It checks each object that it is given by Kubernetes' schema.

The command of a job runs as a process of this machine, so every path of its volumes is here, too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import kubernetes_validate

VERSION = "1.34"
"""Of the schemas."""
_JOB = re.compile(r"/apis/batch/v1/namespaces/(?P<namespace>[^/]+)/jobs/(?P<name>[^/]+)/status")


class FakeKubernetes:
    """`jobs` holds the objects of all jobs by name, `refused` what the schema says against an object."""

    def __init__(self, folder: Path) -> None:
        """`folder`: where jobs have their empty working folders, and where the file for clients goes."""
        self.folder = folder
        self.jobs: dict[str, dict[str, Any]] = {}
        self.refused: list[str] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        pip = folder / "bin" / "pip"
        pip.parent.mkdir()
        pip.write_text("#!/bin/sh\n")  # what the executor installs in each job is in the image already
        pip.chmod(0o755)
        self._path = f"{pip.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(_client_config(self._server.server_port)))

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for process in self._processes.values():
            process.kill()
            process.wait()

    def create(self, path: str, body: dict[str, Any]) -> None:
        """Check an object and, if it is a job, start it."""
        kind, api_version = ("Job", "batch/v1") if path.endswith("/jobs") else ("Secret", "v1")
        found = {"kind": kind, "apiVersion": api_version, **body}
        kubernetes_validate.validate(found, VERSION, strict=True)
        if kind == "Job":
            self._start(found)

    def _start(self, job: dict[str, Any]) -> None:
        name = job["metadata"]["name"]
        self.jobs[name] = job
        container = job["spec"]["template"]["spec"]["containers"][0]
        work = self.folder / name
        work.mkdir()
        with (work / "log").open("wb") as log:
            argv = [*container["command"], *container["args"]]
            env = {**os.environ, "PATH": self._path}
            self._processes[name] = subprocess.Popen(argv, cwd=work, stdout=log, stderr=log, env=env)

    def status(self, name: str) -> dict[str, Any]:
        code = self._processes[name].poll()
        ended = {} if code is None else {"succeeded" if code == 0 else "failed": 1}
        return {**self.jobs[name], "status": ended}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                try:
                    fake.create(self.path, body)
                except kubernetes_validate.ValidationError as error:
                    fake.refused.append(error.message)
                    self._answer(422, {"message": error.message})
                else:
                    self._answer(201, body)

            def do_GET(self) -> None:
                job = _JOB.fullmatch(self.path)
                if job and job["name"] in fake.jobs:
                    self._answer(200, fake.status(job["name"]))
                elif "/pods" in self.path:
                    self._answer(200, {"kind": "PodList", "apiVersion": "v1", "items": []})
                else:
                    self._answer(404, {})

            def do_DELETE(self) -> None:
                self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

            def _answer(self, code: int, body: Mapping[str, Any]) -> None:
                text = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *words: object) -> None:
                """Requests need no log."""

        return Handler


def _client_config(port: int) -> dict[str, Any]:
    """The file that clients of Kubernetes read. YAML contains JSON."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        "users": [{"name": "fake", "user": {}}],
    }
