# SPDX-License-Identifier: Apache-2.0
import importlib
import os
import re
from pathlib import Path

import pytest

from sluice import plugin, topologies
from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.schema.desired import Policy
from sluice.policy.schemes import SCHEMES
from sluice.runs.files import load_cdf
from sluice.runtime import plugins
from sluice.runtime.plugins import PluginError
from tests.kit.pages import DOCS, of_order

PAGE = DOCS / "how-to" / "plugins.md"
FILES = {block.argument: block.text for block in of_order(PAGE, "save")}


pytestmark = pytest.mark.usefixtures("no_plugin_stays")


def saved(folder: Path, name: str, text: str = "") -> Path:
    path = folder / name
    path.write_text(text or FILES[name])
    return path


def test_a_scheme_from_outside_is_one_like_all_others(tmp_path: Path) -> None:
    plugins.use(saved(tmp_path, "my_scheme.py"))
    policy = Policy.from_document({"scheme": "my-scheme", "mark_at": "18KB"})
    assert (policy.queues, policy.mark_at) == (3, 18_000)
    assert Policy.from_document(policy.to_document()) == policy
    with pytest.raises(FieldError, match=r"my-schema is not a scheme|did you mean my-scheme"):
        Policy.from_document({"scheme": "my-schema"})


def test_a_topology_from_outside(tmp_path: Path) -> None:
    plugins.use(saved(tmp_path, "my_ring.py"))
    graph = topologies.build("my-ring", switches=3, hosts_per_switch=1)
    assert [port.id for port in graph.one_path("h1", "h3")] == ["s1:3", "s3:1"]
    with pytest.raises(FieldError, match="switches: must be a whole number from 3 to 100"):
        topologies.build("my-ring", switches=2)
    with pytest.raises(FieldError, match=r"did you mean my-ring"):
        topologies.build("my-rings")


def test_a_topology_cannot_replace_one_of_the_tree(tmp_path: Path) -> None:
    plugins.use(saved(tmp_path, "bad.py", FILES["my_ring.py"].replace('"my-ring"', '"single"')))
    with pytest.raises(SluiceError, match='a plugin has the topology "single", which exists already'):
        topologies.build("single")


def test_a_workload_from_outside_has_a_name(tmp_path: Path) -> None:
    saved(tmp_path, "mine.cdf", "10000 0\n10000 1\n")
    plugins.use(
        saved(
            tmp_path,
            "w.py",
            "from pathlib import Path\nWORKLOADS = {'mine': Path(__file__).with_name('mine.cdf')}",
        )
    )
    assert load_cdf("mine").mean_bytes == 10_000
    with pytest.raises(FieldError, match="did you mean mine"):
        load_cdf("mime")


def test_processes_that_start_later_know_the_plugin(tmp_path: Path) -> None:
    first, second = saved(tmp_path, "my_scheme.py"), saved(tmp_path, "my_ring.py")
    for path in (first, second, first):
        plugins.use(path)
    assert os.environ[plugins.VARIABLE] == f"{first}:{second}"
    assert list(plugins.LOADED) == [str(first), str(second)]
    plugins.load()
    assert list(plugins.LOADED) == [str(first), str(second)]


def test_an_installed_package_names_its_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, "outside_ring.py", FILES["my_ring.py"])
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sluice.plugins]\nring = outside_ring\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    plugins.load()
    assert plugins.LOADED["entry point ring = outside_ring"].topology == "my-ring"
    assert topologies.build("my-ring").hosts


SCHEME = FILES["my_scheme.py"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "has no Scheme, no topology"),
        ("x = ", r"line 1: invalid syntax"),
        ("\nraise ValueError('a defect')", r"bad.py, line 2: ValueError: a defect"),
        ("raise ModuleNotFoundError('x', name='policy')", "import from sluice.plugin"),
        (SCHEME.replace('"my-scheme"', '"pias"'), 'there is a scheme "pias" already; choose another name'),
        (SCHEME.replace("queues=3,", "queues=4,"), "queue rule three-rows does not allow 4 queues"),
        (
            SCHEME.replace("others = ", "others = 1 + "),
            r"three-rows: its map must have 62 queues, each from 0 to 2, not 63",
        ),
        (SCHEME.replace("[queues - 1]", "[queues]"), "not 62 from 0 to 3"),
        (SCHEME.replace("[queues - 1]", "[missing]"), r"queue rule three-rows: .*line 12: NameError"),
        (
            SCHEME.replace(
                "control=controls.DCTCP",
                "control=controls.Control('mine', 'sluice_mine', controls.Echo.EXACT, fallback='reno')",
            ),
            "the control of scheme my-scheme must be one of sluice.plugin.controls: DCTCP, UCP",
        ),
        ("KIND = 'x'", "a topology needs KIND, a class Parameters"),
        ("WORKLOADS = {'a': '/nothing.cdf'}", r'WORKLOADS\["a"\]: there is no file /nothing.cdf'),
        ("WORKLOADS = 3", "WORKLOADS must map names to .cdf files, not int"),
    ],
)
def test_a_wrong_plugin_is_answered_with_the_place_and_leaves_nothing(
    tmp_path: Path, text: str, message: str
) -> None:
    known = list(SCHEMES)
    path = saved(tmp_path, "bad.py", text)
    with pytest.raises(PluginError, match=message) as refused:
        plugins.use(path)
    assert str(path) in str(refused.value)
    assert list(SCHEMES) == known
    assert not plugins.LOADED
    assert plugins.VARIABLE not in os.environ


def test_the_page_names_all_that_a_plugin_may_import() -> None:
    section = PAGE.read_text().partition("## What a plugin may import\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(plugin.__all__)
