# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import tomllib

import pytest

from policy.errors import FieldError
from policy.marking import PortMarking
from policy.scenario import scenario_from_document
from policy.workload import Mix, parse_cdf

TEXT = """
name = "paper"
seed = 3
[fabric]
topology = "single"
hosts = 4
host_rate = "100Mbit"
link_delay = "20us"
buffer = "360KB"
[scheme]
name = "mlfq-adaptive"
queues = 2
mark_at = "20pkt"
thresholds = ["1KB"]
[transport]
rto_min = "10ms"
[workload]
mix = [ { bytes = "10KB", share = 0.8, from = ["h3"] }, { bytes = "1MB", share = 0.2 } ]
pattern = "many-to-one"
to = "h1"
load = 0.8
flows = 100
[deadlines]
share = 0.3
min = "5ms"
max = "25ms"
"""


def load_cdf(name):
    return parse_cdf(name, "1 0\n10 1")


def read(document):
    return scenario_from_document(document, load_cdf)


def test_scenario__reads_every_table():
    scenario = read(tomllib.loads(TEXT))
    assert scenario.seed == 3
    assert scenario.fabric.parameters == {"hosts": 4, "host_rate_bps": 10**8, "link_delay_ns": 20_000}
    assert scenario.policy.mark_at == 30_000
    assert scenario.policy.buffer == 360_000
    assert scenario.policy.thresholds == (1000,)
    assert isinstance(scenario.workload.sizes, Mix)
    assert scenario.workload.deadlines.min_us == 5000
    assert scenario.transport.rto_min_ms == 10


def test_scenario__a_ramp_with_units_below_the_fabrics_buffer():
    document = tomllib.loads(TEXT)
    document["scheme"] = {"name": "datcp", "mark_min": "40KB", "mark_max": "60KB"}
    assert read(document).policy.port_marking == PortMarking(40_000, 360_000, mark_max_bytes=60_000)
    document["fabric"]["buffer"] = "60KB"
    with pytest.raises(FieldError) as error:
        read(document)
    assert error.value.field == "scheme.mark_max"


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("seeds", 1, "seeds"),
        ("workload.laod", 0.5, "workload.laod"),
        ("workload.load", 1.5, "workload.load"),
        ("workload.load", "high", "workload.load"),
        ("workload.flows", 0, "workload.flows"),
        ("workload.flows", 2.5, "workload.flows"),
        ("workload.pattern", "gossip", "workload.pattern"),
        ("workload.to", None, "workload.to"),
        ("workload.sizes", "web-search", "workload.sizes"),
        ("workload.mix", [{"bytes": "10KB", "share": 0.5}], "workload.mix"),
        ("workload.mix", [{"bytes": 10, "share": 1.0}], "workload.mix[0].bytes"),
        ("fabric.host_rate", "100", "fabric.host_rate"),
        ("fabric.buffer", "360", "fabric.buffer"),
        ("scheme.name", "fifo", "scheme.name"),
        ("scheme.queue", 2, "scheme.queue"),
        ("transport.rto_min", 10, "transport.rto_min"),
        ("deadlines.share", 2, "deadlines.share"),
        ("deadlines.min", "50ms", "deadlines.min"),
    ],
)
def test_scenario__names_the_bad_key(path, value, field):
    document = copy.deepcopy(tomllib.loads(TEXT))
    *tables, key = path.split(".")
    table = document
    for name in tables:
        table = table[name]
    if value is None:
        table.pop(key)
    else:
        table[key] = value
    with pytest.raises(FieldError) as caught:
        read(document)
    assert caught.value.field == field


@pytest.mark.parametrize("missing", ["name", "fabric", "scheme", "workload"])
def test_scenario__names_what_is_missing(missing):
    document = tomllib.loads(TEXT)
    del document[missing]
    with pytest.raises(FieldError, match=missing):
        read(document)
