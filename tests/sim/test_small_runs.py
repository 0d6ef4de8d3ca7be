# SPDX-License-Identifier: Apache-2.0
"""Runs of the command on the simulator that a signal ends, and the pages whose commands run there."""

import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sluice import cli
from sluice.policy.errors import SluiceError
from sluice.runs.bundle import is_complete, read_flows
from sluice.runtime.wait import wait_until
from tests.kit.bundles import sluice
from tests.kit.pages import DOCS, ROOT, of_order, save_files
from tests.sim import kit

SCENARIO = """
name = "long"
seed = 1
[fabric]
topology = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 4
host_rate = "1Gbit"
core_rate = "4Gbit"
host_delay = "400us"
[scheme]
name = "pias"
[workload]
sizes = "web-search-bytes"
pattern = "all-to-all"
load = 0.6
flows = 2000000
"""


def run_of(folder: Path) -> list[str]:
    """Write the scenario, and return the command that runs it into the folder `out`."""
    (folder / "long.toml").write_text(SCENARIO)
    return sluice("run", folder / "long.toml", "--on", "simulator", "--yes", "--out", folder / "out")


@pytest.mark.parametrize(("name", "threads"), [("HUP", ()), ("TERM", ("--threads", "3"))])
def test_an_interrupted_run_has_a_bundle_that_says_interrupted(
    tmp_path: Path, name: str, threads: tuple[str, ...]
) -> None:
    out, argv = tmp_path / "out", ["env", "--default-signal=HUP", *run_of(tmp_path), *threads]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        flows = out / "flows.parquet"
        wait_until(
            lambda: process.poll() is not None or (flows.exists() and flows.stat().st_size > 100_000),
            "flows have ended",
            timeout_s=300,
        )
        os.kill(process.pid, signal.Signals[f"SIG{name}"])
        _, said = process.communicate(timeout=300)
    assert process.returncode == 130, said
    assert f"stopped: interrupted by SIG{name}" in said
    assert "so one thread runs the whole network" not in said
    assert json.loads((out / "meta.json").read_text())["interrupted"] is True
    valid = json.loads((out / "summary.json").read_text())["valid"]
    assert (valid["ok"], valid["reasons"][0].split(";")[0]) == (False, f"interrupted by SIG{name}")
    assert len(read_flows(out)) > 100
    assert not is_complete(out, json.loads((out / "scenario.json").read_text()))


def test_a_signal_that_a_library_swallows_ends_the_run(tmp_path: Path) -> None:
    """pyarrow imports pandas before its first array, and swallows what a signal raises meanwhile."""
    (tmp_path / "pandas.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        run_of(tmp_path), env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 130, ended.stderr
    assert json.loads((tmp_path / "out" / "meta.json").read_text())["interrupted"] is True


INCAST = """
name = "incast"
[fabric]
topology = "single"
hosts = 3
host_rate = "1Gbit"
[scheme]
name = "dctcp"
[workload]
flow = [{ from = "h1", to = "h3", bytes = "146000B" }, { from = "h2", to = "h3", bytes = "146000B" }]
[simulator]
sample_ports = "10us"
sampled_ports = ["PORT"]
"""


def test_queues__a_sample_has_what_waits_and_what_was_sent(tmp_path: Path) -> None:
    file, out = tmp_path / "incast.toml", tmp_path / "out"
    parser, execute = cli.command("run")
    file.write_text(INCAST.replace("PORT", "s1:3"))
    assert execute(parser.parse_args([str(file), "--on", "simulator", "--out", str(out)])) == 0
    samples = pq.read_table(out / "queues.parquet").to_pylist()
    assert {sample["port"] for sample in samples} == {"s1:3"}
    assert [sample["at_s"] for sample in samples[:3]] == [10e-6, 20e-6, 30e-6]
    assert samples[-1]["sent_bytes"] > 2 * 146_000
    assert samples[-1]["dropped_packets"] == 0
    assert max(sample["waiting_bytes"] for sample in samples) > 10 * 1514, "two initial windows meet"
    unknown = INCAST.replace("PORT", "s1:4")
    needless = unknown.replace('sample_ports = "10us"', "")
    for text, message in [(unknown, "the network has no port .s1:4."), (needless, "needs sample_ports")]:
        file.write_text(text)
        with pytest.raises(SluiceError, match=rf"simulator.sampled_ports: {message}"):
            execute(parser.parse_args([str(file), "--on", "simulator", "--out", str(tmp_path / "other")]))


PAGE = DOCS / "how-to" / "plugins.md"

pytestmark = [pytest.mark.sim, pytest.mark.slow]


def run_page(page: Path, tmp_path: Path) -> None:
    """Run the commands of a page, in a folder with its files."""
    save_files(page, tmp_path)
    commands = "".join(block.text for block in of_order(page, "run"))
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_commands_of_the_page_run_and_use_the_parts(tmp_path: Path) -> None:
    run_page(PAGE, tmp_path)
    mine = json.loads((tmp_path / "results" / "mine" / "summary.json").read_text())
    assert mine["unfinished"] == 0
    meta = json.loads((tmp_path / "results" / "mine" / "meta.json").read_text())
    digest = hashlib.sha256((tmp_path / "my_scheme.py").read_bytes()).hexdigest()
    assert meta["plugins"] == {str(tmp_path / "my_scheme.py"): digest}
    assert mine["fct_us"]["all"]["n"] == 60
    assert (tmp_path / "results" / "my-ring" / "summary.json").exists()
    assert "my-scheme" in (tmp_path / "mine.html").read_text()


def test_the_page_for_newcomers_goes_from_files_of_others_to_the_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("REPOSITORY", str(ROOT))
    run_page(DOCS / "how-to" / "compare-transports.md", tmp_path)
    means = {
        scheme: json.loads(summary.read_text())["fct_us"]["small"]["mean"]
        for scheme in ("mine", "swift", "sluice")
        for summary in tmp_path.glob(f"results/peers/**/{scheme}/seed-01/summary.json")
    }
    assert means["sluice"] < means["swift"] < means["mine"]
    [figure] = tmp_path.glob("figures/*99th-percentile-of-the-slowdown.csv")
    series = {row["series"] for row in csv.DictReader(figure.read_text().splitlines())}
    assert series == means.keys()
    assert figure.with_suffix(".pdf").stat().st_size > 5000


def test_the_page_about_training_jobs_runs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run_page(DOCS / "how-to" / "training-jobs.md", tmp_path)
    jobs, coflow = (
        json.loads((tmp_path / "results" / name / "summary.json").read_text())["groups"]
        for name in ("jobs", "coflow")
    )
    assert jobs["near"]["n"] == jobs["far"]["n"] == 5
    assert jobs["near"]["mean"] < jobs["far"]["mean"]
    [parts, result] = pq.read_table(tmp_path / "results" / "coflow" / "groups.parquet").to_pylist()
    assert parts["completion_us"] == coflow["parts"]["mean"]
    assert result["start_s"] == pytest.approx(parts["end_s"] + 100e-6, abs=1e-9)
    bursts = [flow for flow in read_flows(tmp_path / "results" / "bursts") if flow["bytes"] > 100_000]
    assert len(bursts) > 50
    for burst in bursts:
        assert burst["bytes"] * 8 / burst["fct_us"] == pytest.approx(2500, rel=0.05), "megabits a second"


def test_the_page_about_measuring_runs_its_scenarios(tmp_path: Path) -> None:
    run_page(DOCS / "how-to" / "measure.md", tmp_path)
    summary = json.loads((tmp_path / "results" / "measure" / "summary.json").read_text())
    assert sum(drop["packets"] for drop in summary["drops"]) > 0
    requests = json.loads((tmp_path / "results" / "requests" / "summary.json").read_text())["groups"]
    assert requests["incast"]["n"] > 10
    assert [*(tmp_path / "figures").glob("*queues-over-time-queues-dctcp.pdf")]
    window = read_flows(tmp_path / "results" / "window")
    assert 0.035 < max(flow["started_at"] for flow in window) < 0.04
    assert all((flow["source"] == "warm-up") == (flow["started_at"] < 0.005) for flow in window)


def test_the_page_about_driving_the_simulator_runs_its_program(tmp_path: Path) -> None:
    run_page(DOCS / "how-to" / "drive-the-simulator.md", tmp_path)


def test_the_page_about_controls_runs_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run_page(DOCS / "how-to" / "add-a-control.md", tmp_path)
    results = tmp_path / "results"
    delay, slower = (
        json.loads((results / name / "summary.json").read_text()) for name in ("delay", "slower")
    )
    assert delay["unfinished"] == slower["unfinished"] == 0
    assert delay["fct_us"]["small"]["mean"] < slower["fct_us"]["small"]["mean"]
    scenario = json.loads((results / "slower" / "scenario.json").read_text())
    assert scenario["scheme"]["parameters"] == {"target_us": 900}
    compiled = sorted(path.name.partition("-")[0] for path in (tmp_path / "cache").rglob("*.so"))
    assert compiled == ["delay", "gentle"]


def test_the_page_about_transports_grants_a_packet_at_a_time_to_the_shortest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The three FCTs in closed form. The sink grants a packet at each tick, a packet's time after the last."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run_page(DOCS / "how-to" / "add-a-transport.md", tmp_path)
    data, header = (kit.serialisation(frame_bytes, kit.GBIT) for frame_bytes in (kit.FRAME, kit.HEADER))
    across, back = 2 * (data + kit.US), 2 * (header + kit.US)
    first_tick = back
    busy_from = first_tick + back + data + kit.US  # the port to h4
    starts, ticks = (0, kit.MS, 1500 * kit.US), [0]
    for earlier, start in enumerate(starts[1:]):  # the header waits for the packet that is being sent
        packets = -(-(start + header + kit.US - busy_from - earlier * header) // data)
        asked = busy_from + packets * data + (earlier + 1) * header + kit.US
        ticks.append(-(-(asked - first_tick) // data))
    last_ticks = (1100, ticks[1] + 100, ticks[2])
    rest = first_tick + back + across + 2 * header  # two headers have delayed the data after them
    found = by_number(tmp_path / "results" / "three")
    assert [found[i]["fct_us"] for i in range(3)] == pytest.approx(
        [(tick * data + rest - start) / kit.US for tick, start in zip(last_ticks, starts, strict=True)],
        abs=1e-6,
    )
    samples = pq.read_table(tmp_path / "results" / "three" / "queues.parquet").to_pydict()
    assert max(samples["waiting_bytes"]) == kit.FRAME
    assert set(samples["dropped_packets"]) == {0}
    [swept] = tmp_path.glob("results/sweep/toy/*/seed-01/summary.json")
    for summary in (tmp_path / "results" / "patient" / "summary.json", swept):
        assert json.loads(summary.read_text())["unfinished"] == 0
    assert "toy" in (tmp_path / "mine.html").read_text()


def by_number(bundle: Path) -> dict[int, dict[str, Any]]:
    rows = pq.read_table(bundle / "flows.parquet").to_pylist()
    return {int(row["id"].rpartition("/")[2]): row for row in rows}


def test_the_page_about_transports_survives_a_link_that_loses_packets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    save_files(DOCS / "how-to" / "add-a-transport.md", tmp_path)
    file = tmp_path / "three.toml"
    file.write_text(file.read_text() + '[[simulator.fault]]\nlink = "h4-s1"\nloss = 0.1\n')
    command = [sys.executable, "-m", "sluice", "run", str(file), "--plugin", str(tmp_path / "toy.hpp")]
    subprocess.run([*command, "--out", str(tmp_path / "out")], check=True, capture_output=True, timeout=120)
    rows = by_number(tmp_path / "out").values()
    assert {row["status"] for row in rows} == {"finished"}
    assert sum(row["retransmissions"] for row in rows) > 50
