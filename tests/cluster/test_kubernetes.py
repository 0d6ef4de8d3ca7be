# SPDX-License-Identifier: Apache-2.0
"""The profile for Kubernetes in docs/how-to/clusters.md: its jobs fit Kubernetes' schema. No cluster runs here."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.pages import DOCS, of_order
from tests.kit.sweeps import PATIENCE_S, sluice, write_scenario

if TYPE_CHECKING:
    from tests.fakes.kubernetes import FakeKubernetes

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(400)]

PACKAGES = ("snakemake_executor_plugin_kubernetes", "snakemake_storage_plugin_fs", "kubernetes_validate")
VOLUME = "/shared"
"""Where the page mounts the volume."""


@pytest.fixture(autouse=True)
def needed() -> None:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    missing += [name for name in ("rsync",) if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{missing[0]} is missing: `make test-cluster` installs it")


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[FakeKubernetes]:
    from tests.fakes.kubernetes import FakeKubernetes

    (tmp_path / "kubernetes").mkdir()
    found = FakeKubernetes(tmp_path / "kubernetes")
    yield found
    found.stop()


def of_page(name: str) -> str:
    """The file of this name that the page tells its reader to save."""
    (text,) = [
        block.text for block in of_order(DOCS / "how-to" / "clusters.md", "save") if block.argument == name
    ]
    return text


def run_sweep(kubernetes: FakeKubernetes, volume: Path, *seeds: int) -> None:
    """Sweep with the page's profile. The volume is this folder."""
    profile = volume / "profile"
    profile.mkdir(parents=True, exist_ok=True)
    text = of_page("profile/config.yaml").replace(VOLUME, str(volume))
    (profile / "config.yaml").write_text(text.replace("/tmp/sluice", str(volume.parent / "copies")))
    words = sluice(
        "sweep", write_scenario(volume), "--seeds", *seeds, "--out", volume / "out", "--profile", profile
    )
    env = {**os.environ, "KUBECONFIG": str(kubernetes.kubeconfig)}
    done = subprocess.run(
        words, cwd=volume, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_volume_of_the_page_fits_the_schema() -> None:
    import kubernetes_validate
    import yaml

    from tests.fakes.kubernetes import VERSION

    kubernetes_validate.validate(yaml.safe_load(of_page("volume.yaml")), VERSION, strict=True)


def test_jobs_of_the_profile_fit_the_schema_and_a_sweep_goes_on(
    kubernetes: FakeKubernetes, tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    run_sweep(kubernetes, volume, 1)
    (job,) = kubernetes.jobs.values()
    pod = job["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["requests"] == {"cpu": "950m", "memory": "2048M"}
    assert {"name": "sluice", "mountPath": str(volume)} in pod["containers"][0]["volumeMounts"]
    run_sweep(kubernetes, volume, 1, 2)
    assert len(kubernetes.jobs) == 2
    assert kubernetes.refused == []


def test_the_schema_refuses_a_wrong_job(kubernetes: FakeKubernetes) -> None:
    import kubernetes_validate

    spec = {"template": {"spec": {"containers": [{"name": "x"}], "restartPolici": "Never"}}}
    with pytest.raises(kubernetes_validate.ValidationError, match="restartPolici"):
        kubernetes.create("/apis/batch/v1/namespaces/x/jobs", {"metadata": {"name": "x"}, "spec": spec})
