# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from sluice.policy import tags
from sluice.policy.errors import FieldError
from sluice.policy.fabrics import SIMULATOR, TESTBED, refusal
from sluice.policy.policing.limits import breach, limits_bytes
from sluice.policy.schema.desired import Policy, queue_map
from sluice.policy.schemes.ports import last_attained, written_tag

RESERVED = (10, 39, 40, 46, 56, 57)


@pytest.mark.parametrize(
    ("tag", "written"),
    [
        (0, 0),
        (9, 9),
        (10, 11),  # a larger tag promises less
        (39, 38),  # no larger one is free
        (40, 38),
        (46, 45),  # less urgent
        (56, 55),
        (57, 58),
        (61, 61),
        (63, 63),
    ],
)
def test_written_tag(tag: int, written: int) -> None:
    assert written_tag(tag, RESERVED) == written


def test_written_tag__a_kind_without_a_free_tag_is_background() -> None:
    sizes = tuple(range(tags.KNOWN_SIZE_FIRST, tags.KNOWN_SIZE_LAST + 1))
    assert {written_tag(tag, sizes) for tag in sizes} == {tags.BACKGROUND}


def test_written_tag__is_never_reserved() -> None:
    assert all(written_tag(tag, RESERVED) not in RESERVED for tag in range(64))


def policy(**fields: object) -> Policy:
    return Policy.from_document({"scheme": "pias", **fields})


def test_queue_map__reserved_dscps_have_a_queue_of_their_own() -> None:
    plain, reserved = policy(), policy(reserved_dscp=[40, 46], reserved_queue=2)
    before, after = (queue_map(one, one.thresholds) for one in (plain, reserved))
    assert {tag: queue for tag, queue in enumerate(after) if queue != before[tag]} == {40: 2, 46: 2}
    default = policy(reserved_dscp=[46])
    assert queue_map(default, default.thresholds)[46] == 0


@pytest.mark.parametrize("wrong", [[0], [61], [62], [46, 46], [48, 46], list(range(1, 34)), 46])
def test_field__what_can_be_reserved(wrong: object) -> None:
    with pytest.raises(FieldError, match="reserved_dscp"):
        policy(reserved_dscp=wrong)


def test_needs__the_simulator_has_no_others() -> None:
    assert refusal(policy(reserved_dscp=[46]), TESTBED) is None
    problem = refusal(policy(reserved_dscp=[46]), SIMULATOR)
    assert problem is not None
    assert "reserved DSCPs" in problem
    assert "omit reserved_dscp" in problem


def test_limits__the_last_free_tag_of_attained_service_has_none() -> None:
    assert last_attained(RESERVED) == 38
    limits = limits_bytes(1.0, 10, reserved=RESERVED)
    assert np.isfinite(limits[1:38]).all()
    assert np.isinf(limits[38:]).all()


@pytest.mark.parametrize(
    ("reserved", "limited"), [((56,), True), ((57,), False), ((60,), False), ((61,), True)]
)
def test_limits__no_size_class_has_one_if_one_of_their_tags_is_reserved(
    reserved: tuple[int, ...], limited: bool
) -> None:
    """A larger flow may then carry the tag of a smaller class."""
    limits = limits_bytes(1.0, 10, reserved=reserved)
    assert np.isfinite(limits[tags.KNOWN_SIZE_FIRST : tags.KNOWN_SIZE_LAST]).all() == limited
    assert np.isinf(limits[tags.KNOWN_SIZE_LAST])


def test_breach__others_traffic_is_no_offence() -> None:
    payload = np.zeros(tags.TAG_COUNT)
    payload[10] = 1e9
    assert breach(payload, 1.0, 10) is not None
    assert breach(payload, 1.0, 10, reserved=RESERVED) is None
    payload[9] = 1e9
    found = breach(payload, 1.0, 10, reserved=RESERVED)
    assert found is not None
    assert found.tag == 9
