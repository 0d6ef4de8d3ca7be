# SPDX-License-Identifier: Apache-2.0
"""docs/reference/policy.md: every field of a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sluice.policy.schema.field_kinds import MAX_QUEUES, Draft, PolicyEntry
from sluice.policy.schema.fields import POLICY_FIELDS
from sluice.policy.schema.kinds import Kind, ListOf
from sluice.policy.schemes import SCHEMES, Scheme
from sluice.policy.schemes.queues import QUEUE_RULES
from tools.reference import documents
from tools.reference.markdown import code, page, sentence, table

_INTRODUCTION = """\
A policy says what every port and every host must do. Two documents hold one: the body of `PUT /api/v1/policy`, and the
`[scheme]` table of a scenario. In a scenario the field `scheme` has the key `name`.

Only the scheme is required. Every other field has a default, and many defaults depend on the scheme. A field that the
scheme does not have must be left out. JSON's `null` means the default, except for `shares`. The defaults below are for
10 Gb/s. Marks and buffer are fitted to the links, and a change keeps what belongs to the network
([what a document leaves out](../how-to/change-the-policy.md#what-a-document-leaves-out)).

A size is text with a unit (`"10KB"`, `"65pkt"`) or a number of bytes. A packet (`pkt`) counts 1500 bytes, and 1 KB is
1000 bytes. A duration is text with a unit (`"1ms"`) or a number of nanoseconds, except in fields that end in `_ms`."""

_RULES = """\
The number of thresholds follows from the number of queues and from the scheme's queue rule. Thresholds increase, and a
port rounds each one down to an edge of the tag's buckets ([the tag](../explanation/tag.md)). `–` means that the rule
does not work with so many queues. [Schemes](schemes.md) lists the queue rule of each scheme."""

_OVERRIDES = """\
An override is a table with `ports` and one of two things: `thresholds` that are fixed by hand, or `freeze = true`,
which keeps the thresholds that are in force. A port is `"s1:2"`; `"s1:*"` is every port of a switch, and `"*"` every
port. If several overrides name a port, the last one decides. Only schemes that adapt can freeze."""


_FEW = 5
"""A longer list of schemes is written as the schemes that it lacks."""

_ALLOWED = {"untagged_queue": "from 0 to the last queue"}
_DEFAULTS = {"untagged_queue": "the last queue"}
"""In words, where the values differ with the number of queues alone."""


def text() -> str:
    """The page."""
    return page(
        "Policy",
        "For people who write a `[scheme]` table or change the policy of a running network.",
        _INTRODUCTION,
        "## All fields",
        _overview(),
        "## Number of thresholds",
        _RULES,
        _demotions(),
        "## Overrides",
        _OVERRIDES,
        "## Field by field",
        *(_section(field) for field in POLICY_FIELDS if field.name != "scheme"),
    )


def _overview() -> str:
    rows = [
        (f"[`{field.name}`](#{field.name})" if field.name != "scheme" else "`scheme`", sentence(field.help))
        for field in POLICY_FIELDS
    ]
    return table(("field", "meaning"), rows)


def _demotions() -> str:
    counts = range(1, MAX_QUEUES + 1)
    rules = [rule for rule in QUEUE_RULES if any(rule.allows(n) and rule.demotions(n) for n in counts)]
    rows = [
        [code(rule.label), *(str(rule.demotions(n)) if rule.allows(n) else "–" for n in counts)]
        for rule in rules
    ]
    return table(("queue rule", *(f"{n} queues" if n > 1 else "1 queue" for n in counts)), rows)


def _section(field: PolicyEntry) -> str:
    users = [scheme for scheme in SCHEMES.values() if field.applies.test(Draft(scheme))]
    facts = [
        ("kind", documents.kind_name(field.kind_of(_at_default(users[0])))),
        ("schemes", _who(field, users)),
        ("allowed", _ALLOWED.get(field.name) or _by_scheme(users, lambda scheme: _allowed(field, scheme))),
        ("default", _DEFAULTS.get(field.name) or _by_scheme(users, lambda scheme: _default(field, scheme))),
    ]
    parts = [
        f"### `{field.name}`",
        sentence(field.help),
        table(("property", "value"), facts),
    ]
    return "\n\n".join(parts)


def _who(field: PolicyEntry, users: list[Scheme]) -> str:
    if len(users) == len(SCHEMES):
        return field.applies.to
    without = [name for name in SCHEMES if SCHEMES[name] not in users]
    few = f"all but {_names(without)}" if len(without) <= _FEW else _names(scheme.name for scheme in users)
    unused = "" if field.applies.refusal else ". Other schemes may hold it, without effect"
    return f"{field.applies.to}: {few}{unused}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(code, names))


def _at_default(scheme: Scheme) -> Draft:
    return Draft(scheme, {"queues": scheme.queues, "flow_queues": scheme.flow_queues})


def _allowed(field: PolicyEntry, scheme: Scheme) -> str:
    """Bounds of the values; the length of a list has a section of its own."""
    kind: Kind = field.kind_of(_at_default(scheme))
    if not isinstance(kind, ListOf):
        return documents.allowed(kind)
    if field.name == "overrides":
        return f"up to {kind.longest} overrides"
    count = "one value for each queue" if field.name == "shares" else "one value for each threshold"
    return f"{count}, each {kind.item.allowed}"


def _default(field: PolicyEntry, scheme: Scheme) -> str:
    value = field.default_of(_at_default(scheme))
    if value is None or value == ():
        return "–"
    return code(field.kind_of(_at_default(scheme)).show(value))


def _by_scheme(users: list[Scheme], of: Callable[[Scheme], str]) -> str:
    """One value if all schemes agree, otherwise each value with its schemes. The most frequent value comes last."""
    groups: dict[str, list[str]] = {}
    for scheme in users:
        groups.setdefault(of(scheme), []).append(scheme.name)
    if len(groups) == 1:
        return next(iter(groups))
    *fewer, (usual, rest) = sorted(groups.items(), key=lambda group: len(group[1]))
    lines = [f"{value}: {_names(names)}" for value, names in fewer]
    last = _names(rest) if len(rest) <= _FEW else "the others"
    return "<br>".join([*lines, f"{usual}: {last}"])
