# SPDX-License-Identifier: Apache-2.0
"""The code does what tests/model/Mastership.tla says, step by step. TLC has made the traces: `make model-traces`."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sluice.controller import session
from sluice.store import desired
from sluice.store.engine import engine_of, open_store
from tests.kit.networks import single
from tests.unit.controller.mastership import World, policy

pytestmark = pytest.mark.slow

MODEL = Path(__file__).parents[2] / "model"
TRACES: list[list[Any]] = json.loads(gzip.decompress((MODEL / "traces.json.gz").read_bytes()))
PARTS = 2


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a network and a policy."""
    path = tmp_path_factory.mktemp("store") / "template.db"
    engine = open_store(f"sqlite:///{path}")
    desired.put_topology(engine, single(2))
    assert desired.put_policy(engine, policy(1), "test") == 1
    engine.dispose()
    return path


def expected(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state of the model as World.state does: of messages and rows that wait, only kinds and numbers."""
    kinds = {name: [message["kind"] for message in queue] for name, queue in state["down"].items()}
    lengths = {key: {name: len(queue) for name, queue in state[key].items()} for key in ("up", "waiting")}
    return {**state, **lengths, "down": kinds}


@pytest.mark.parametrize("part", range(PARTS))
def test_the_code_follows_every_trace_of_the_model(
    part: int, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The model has no time: an answer may come as late as it likes, also on a busy machine.
    monkeypatch.setattr(session, "OPERATION_LIMIT_NS", 10**15)
    for number, trace in enumerate(TRACES[part::PARTS]):
        store = tmp_path / f"{number}.db"
        shutil.copyfile(template, store)
        engine = engine_of(f"sqlite:///{store}")
        world = World(engine)
        for place, (action, who, state) in enumerate(trace):
            world.step(action, who)
            at = f"trace {number * PARTS + part}, step {place}: {action} {who}"
            assert world.state() == expected(state), at
            for each in world.candidates.values():
                term = each.term()
                if each.groups and term and term.generation != world.row_generation:
                    each.check_that_the_store_refuses()
        engine.dispose()
