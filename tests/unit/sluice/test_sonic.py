# SPDX-License-Identifier: Apache-2.0
"""The export against a schema of SONiC's tables, and against the way of a packet through them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sluice.policy import tags
from sluice.policy.errors import SluiceError
from sluice.policy.schema.desired import Policy
from sluice.policy.schemes.classes import ClassPlan, class_plan, coarse_map
from sluice.policy.thresholds.static import Traffic, known_delays
from sluice.runs.files import load_cdf
from sluice.sonic import (
    ADAPTED_TABLE,
    SonicPort,
    Tables,
    adapted_tables,
    check_interface,
    config_tables,
    differences,
    lossless_classes,
    overlaps,
    planned,
)

SCHEMA = json.loads(Path(__file__).with_name("sonic.schema.json").read_text())
SCHEMES = ("sluice", "pias", "aemon", "karuna", "datcp")
TRAFFIC = [Traffic(load_cdf("web-search"), 0.8)]


@cache
def plan_of(scheme: str, **fields: Any) -> ClassPlan:
    """Return the classes of a policy. To choose them costs seconds."""
    policy = Policy.from_document({"scheme": scheme, **fields})
    levels = len(policy.thresholds) + 1
    return class_plan(policy, [known_delays(load_cdf("web-search"), 0.8, levels)])


def ports_of(plan: ClassPlan) -> list[SonicPort]:
    edges = plan.snapped(plan.policy.thresholds)
    return [SonicPort("Ethernet0", edges), SonicPort("Ethernet4", edges)]


def tables_of(scheme: str, **fields: Any) -> tuple[ClassPlan, Tables]:
    plan = plan_of(scheme, **fields)
    return plan, config_tables(plan, ports_of(plan))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_config_tables__fit_the_schema_and_name_only_rows_that_exist(scheme: str) -> None:
    _, tables = tables_of(scheme)
    jsonschema.validate(tables, SCHEMA)
    for row in tables["PORT_QOS_MAP"].values():
        assert row["dscp_to_tc_map"] in tables["DSCP_TO_TC_MAP"]
        assert row["tc_to_queue_map"] in tables["TC_TO_QUEUE_MAP"]
    for row in tables["QUEUE"].values():
        assert row["scheduler"] in tables["SCHEDULER"]
        assert row.get("wred_profile") in {None, *tables["WRED_PROFILE"]}


def test_the_schema_refuses_what_sonic_refuses() -> None:
    _, tables = tables_of("sluice")
    tables["TC_TO_QUEUE_MAP"]["SLUICE_Ethernet0"]["8"] = "0"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tables, SCHEMA)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_config_tables__a_packet_of_each_tag_gets_the_queue_of_the_policy(scheme: str) -> None:
    plan, tables = tables_of(scheme)
    expected = coarse_map(plan.policy, plan.snapped(plan.policy.thresholds))
    binding = tables["PORT_QOS_MAP"]["Ethernet4"]
    classes = tables["DSCP_TO_TC_MAP"][binding["dscp_to_tc_map"]]
    queues = tables["TC_TO_QUEUE_MAP"][binding["tc_to_queue_map"]]
    top = plan.policy.queues - 1
    found = [top - int(queues[classes[str(dscp)]]) for dscp in range(64)]
    assert found[: tags.TAG_COUNT] == list(expected)
    assert found[tags.TAG_COUNT :] == [expected[tags.UNTAGGED]] * 2


def test_adapted_tables__other_thresholds_change_one_table_of_one_port() -> None:
    plan = plan_of("sluice")
    first, second = ports_of(plan)
    before = config_tables(plan, [first, second])
    moved = SonicPort("Ethernet4", (plan.edges_bytes[0],) * len(plan.policy.thresholds))
    after = config_tables(plan, [first, moved])
    assert {table for table in before if before[table] != after[table]} == {ADAPTED_TABLE}
    assert before[ADAPTED_TABLE]["SLUICE_Ethernet0"] == after[ADAPTED_TABLE]["SLUICE_Ethernet0"]
    assert adapted_tables(plan, [moved])[ADAPTED_TABLE].items() <= after[ADAPTED_TABLE].items()


def test_config_tables__the_last_queue_has_its_own_threshold() -> None:
    _, tables = tables_of("sluice", mark_at="100KB", last_mark_factor=3)
    profiles = {key: tables["WRED_PROFILE"][row["wred_profile"]] for key, row in tables["QUEUE"].items()}
    assert profiles["Ethernet0|5"]["green_max_threshold"] == "100000"
    assert profiles["Ethernet0|0"]["green_min_threshold"] == "300000"


@pytest.mark.parametrize("scheme", ["fish", "hull"])
def test_config_tables__a_policy_that_sonic_cannot_carry_out_is_refused(scheme: str) -> None:
    with pytest.raises(SluiceError, match=f"{scheme}: .*choose another scheme"):
        tables_of(scheme)


def test_differences__name_what_the_switch_does_otherwise() -> None:
    said = " ".join(differences(plan_of("mlfq-adaptive", urgent_first=True)))
    assert "WRED cannot count a whole port" in said
    assert "drops what arrives" in said
    assert "own backlog" not in " ".join(differences(plan_of("sluice")))


SWITCH: dict[str, dict[str, Any]] = {
    "PORT": {"Ethernet0": {"alias": "etp1"}, "Ethernet4": {}},
    "DSCP_TO_TC_MAP": {"SITE": {"0": "1", "24": "3", "26": "3", "46": "5", "63": "4"}},
    "TC_TO_QUEUE_MAP": {"SITE": {str(number): str(number) for number in range(8)}},
    "PORT_QOS_MAP": {
        "global": {"dscp_to_tc_map": "[DSCP_TO_TC_MAP|SITE]"},
        "Ethernet0": {"tc_to_queue_map": "SITE", "pfc_enable": "3,4"},
    },
    "QUEUE": {"Ethernet0|0-2": {}, "Ethernet0|3-4": {}, "Ethernet4|5": {}},
}
LOSSLESS = lossless_classes(SWITCH, ["Ethernet0", "Ethernet4"])


def test_lossless_classes__have_no_tag_and_keep_their_queues() -> None:
    with pytest.raises(SluiceError, match=r"PFC for DSCP 24, 26\. .*reserved_dscp = \[24, 26\]"):
        planned(Policy.from_document({"scheme": "sluice"}), TRAFFIC, LOSSLESS)
    policy = Policy.from_document({"scheme": "sluice", "reserved_dscp": [24, 26]})
    plan = planned(policy, TRAFFIC, LOSSLESS).plan
    tables = config_tables(plan, ports_of(plan), LOSSLESS)
    jsonschema.validate(tables, SCHEMA)
    class_of = tables["DSCP_TO_TC_MAP"]["SLUICE"]
    assert {dscp: number for dscp, number in class_of.items() if number in "34"} == {
        "24": "3",
        "26": "3",
        "63": "4",
    }
    queue_of = tables["TC_TO_QUEUE_MAP"]["SLUICE_Ethernet0"]
    assert (queue_of["3"], queue_of["4"]) == ("3", "4")
    of_queue = [0, 1, 2, 5, 6, 7][: policy.queues][::-1]
    expected = coarse_map(policy, plan.snapped(policy.thresholds))
    for tag in set(range(tags.TAG_COUNT)) - {24, 26}:
        assert queue_of[class_of[str(tag)]] == str(of_queue[expected[tag]])
    assert not {"Ethernet0|3", "Ethernet0|4"} & tables["QUEUE"].keys()
    assert overlaps(SWITCH, tables) == ["Ethernet0|0-2"]


@pytest.mark.parametrize(
    ("fields", "config", "said"),
    [
        ({"scheme": "pias", "queues": 8}, {}, "has 2 of the 8 queues .* queues to at most 6"),
        ({"scheme": "sluice"}, {"DSCP_TO_TC_MAP": {"SITE": {"0": "3"}}}, "PFC for DSCP 0"),
        ({"scheme": "sluice"}, {"DSCP_TO_TC_MAP": {"SITE": {"61": "3"}}}, "PFC for DSCP 61"),
    ],
)
def test_lossless_classes__what_cannot_be_beside_them_is_refused(
    fields: dict[str, Any], config: dict[str, Any], said: str
) -> None:
    lossless = lossless_classes(SWITCH | config, ["Ethernet0"])
    with pytest.raises(SluiceError, match=said):
        planned(Policy.from_document({"reserved_dscp": [24, 26], **fields}), TRAFFIC, lossless)


@pytest.mark.parametrize(
    ("interface", "bindings", "said"),
    [
        ("etp1", {}, "no port etp1: write Ethernet0"),
        ("Ethernet4", {"pfc_enable": "3,all"}, "pfc_enable of Ethernet4 must be whole numbers, not 'all'"),
        (
            "Ethernet4",
            {"pfc_enable": "3", "dscp_to_tc_map": "OTHER"},
            "the traffic class of DSCP 63 is 4 at one of these ports and 3 at another",
        ),
    ],
)
def test_lossless_classes__what_the_switch_cannot_mean_is_refused(
    interface: str, bindings: dict[str, str], said: str
) -> None:
    maps = SWITCH["DSCP_TO_TC_MAP"] | {"OTHER": {"63": "3"}}
    bound = SWITCH["PORT_QOS_MAP"] | {"Ethernet4": bindings}
    with pytest.raises(SluiceError, match=said):
        lossless_classes(SWITCH | {"DSCP_TO_TC_MAP": maps, "PORT_QOS_MAP": bound}, ["Ethernet0", interface])


@pytest.mark.parametrize("name", ["", "0", "Ethernet0|1", "Ethernet 0", "E" * 25])
def test_check_interface__names_what_is_allowed(name: str) -> None:
    with pytest.raises(SluiceError, match="for example Ethernet0"):
        check_interface(name)
