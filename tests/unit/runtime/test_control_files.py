# SPDX-License-Identifier: Apache-2.0
"""What a congestion control's file says of itself, and the errors that name what is wrong."""

from pathlib import Path

import pytest

from sluice.policy.controls import FROM_FILES, Echo
from sluice.policy.errors import FieldError
from sluice.policy.fabrics import SIMULATOR, TESTBED, refusal
from sluice.policy.schema.desired import Policy
from sluice.policy.schemes import Marking
from sluice.runtime import plugins
from sluice.runtime.control_files import ControlFileError, read

pytestmark = pytest.mark.usefixtures("no_plugin_stays")

HOOKED = '#include "hooks.h"\n#define SL_ON_ACK on_ack\n'
TWO_PARAMETERS = (
    "#define SL_CONTROL two\n"
    "/* #define SL_ECHO SL_ECHO_STANDARD */\n"
    "#define SL_PARAMETERS(P) \\\n"
    '\tP(target_us, 30, "Target, in microseconds.") \\\n'
    '\tP(gain_milli, 800, "Gain (0.8).")\n'
)


@pytest.fixture
def write(tmp_path: Path) -> Path:
    return tmp_path / "control.h"


def test_a_file_says_its_name_its_parameters_and_whether_it_owns_its_window(write: Path) -> None:
    write.write_text(TWO_PARAMETERS + HOOKED)
    control = read(write)
    assert (control.name, control.kernel_name, control.echo, control.of_window) == (
        "two",
        "sluice_two",
        Echo.EXACT,
        False,
    )
    assert [(p.name, p.default, p.help) for p in control.parameters] == [
        ("target_us", 30, "Target, in microseconds."),
        ("gain_milli", 800, "Gain (0.8)."),
    ]
    assert read(write) == control


def test_the_same_name_from_another_file_is_refused(write: Path) -> None:
    write.write_text(TWO_PARAMETERS + HOOKED)
    read(write)
    other = write.with_name("other.h")
    other.write_text(write.read_text())
    with pytest.raises(ControlFileError, match=r"there is a control two from .*control\.h already"):
        read(other)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (HOOKED, "SL_CONTROL with a name of at most 8 small letters, digits and underscores, not nothing"),
        ("#define SL_CONTROL TooLong\n" + HOOKED, "not TooLong"),
        ("#define SL_CONTROL dctcp\n" + HOOKED, "there is a control dctcp already"),
        ("#define SL_CONTROL none\n", "has no hook; define SL_ON_WINDOW or SL_ON_ACK"),
        (
            "#define SL_CONTROL late\n#define SL_ON_WINDOW w\n#define SL_ON_LOSS l\n",
            "SL_ON_LOSS needs SL_ON_ACK, because without it the window moves as Reno's",
        ),
        ("#define SL_CONTROL echo\n#define SL_ECHO ALL\n" + HOOKED, "one of SL_ECHO_EXACT, .*, not ALL"),
        (
            '#define SL_CONTROL p\n#define SL_PARAMETERS(P) P(a, -1, "b")\n' + HOOKED,
            "with a whole number as default",
        ),
        (
            '#define SL_CONTROL p\n#define SL_PARAMETERS(P) P(a, 4294967296, "b")\n' + HOOKED,
            "default of a must be below 2.32",
        ),
    ],
)
def test_a_wrong_file_is_named_with_what_is_missing(write: Path, text: str, problem: str) -> None:
    write.write_text(text)
    with pytest.raises(ControlFileError, match=problem) as error:
        read(write)
    assert str(write) in str(error.value)


def test_it_is_a_scheme_of_its_name_whose_policy_sets_the_parameters(write: Path) -> None:
    write.write_text(TWO_PARAMETERS + HOOKED)
    plugins.use(write)
    assert FROM_FILES["two"].file == str(write)
    policy = Policy.from_document({"scheme": "two", "parameters": {"gain_milli": 500}})
    assert policy.parameters is not None
    assert policy.parameters.values == (30, 500)
    assert policy.to_document()["parameters"] == {"target_us": 30, "gain_milli": 500}
    assert Policy.from_document(policy.to_document()) == policy
    for parameters, problem in (
        ({"gain": 1}, "parameters.gain: is not a key here; allowed keys: target_us, gain_milli"),
        ({"gain_milli": -1}, "parameters.gain_milli: must be a whole number from 0 to 4294967295, not -1"),
        (3, "parameters: must be a table with numbers for target_us, gain_milli, not 3"),
    ):
        with pytest.raises(FieldError, match=problem):
            Policy.from_document({"scheme": "two", "parameters": parameters})
    with pytest.raises(FieldError, match="the congestion control of scheme dctcp has no parameters"):
        Policy.from_document({"scheme": "dctcp", "parameters": {"gain_milli": 1}})


def test_a_control_that_reads_no_marks_has_ports_without_marking(write: Path) -> None:
    write.write_text("#define SL_CONTROL deaf\n#define SL_ECHO SL_ECHO_NONE\n" + HOOKED)
    plugins.use(write)
    assert Policy.from_document({"scheme": "deaf"}).definition.marking is Marking.NONE


def test_a_control_that_wants_a_ramp_has_ports_that_mark_by_chance(write: Path) -> None:
    write.write_text("#define SL_CONTROL ramp\n#define SL_RAMP 1\n" + HOOKED)
    plugins.use(write)
    policy = Policy.from_document({"scheme": "ramp", "mark_chance": 0.2})
    assert policy.definition.marking is Marking.RED
    assert (policy.mark_at, policy.mark_min, policy.mark_max) == (None, 97_500, 195_000)


TRANSPORT = '#define SL_TRANSPORT toy\n#define SL_PARAMETERS(P) P(timeout_us, 1000, "Patience.")\n'


def test_a_transport_is_a_scheme_with_homas_ports_that_only_the_simulator_carries_out(write: Path) -> None:
    file = write.with_name("toy.hpp")
    file.write_text(TRANSPORT)
    plugins.use(file)
    policy, homa = Policy.from_document({"scheme": "toy"}), Policy.from_document({"scheme": "homa"})
    assert policy.needs == homa.needs
    assert (policy.queues, policy.definition.queue_rule) == (homa.queues, homa.definition.queue_rule)
    assert policy.to_document()["parameters"] == {"timeout_us": 1000}
    assert refusal(policy, TESTBED)
    assert not refusal(policy, SIMULATOR)
    file.write_text(TRANSPORT.replace("SL_TRANSPORT", "SL_CONTROL"))
    with pytest.raises(ControlFileError, match=r"toy\.hpp: needs #define SL_TRANSPORT with a name"):
        read(file)


def test_a_scheme_of_python_takes_the_control_of_a_file(write: Path) -> None:
    write.write_text(TWO_PARAMETERS + HOOKED)
    scheme = write.with_name("scheme.py")
    scheme.write_text(
        "from dataclasses import replace\nfrom pathlib import Path\nfrom sluice.plugin import SCHEMES, control_file\n"
        'FILE = Path(__file__).with_name("control.h")\n'
        'MINE = replace(SCHEMES["pias"], name="pias-two", control=control_file(FILE))\n'
    )
    plugins.use(scheme)
    assert Policy.from_document({"scheme": "pias-two"}).definition.control.name == "two"
