# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/reference about a policy: its fields, the schemes, and the tags that packets carry."""

from collections.abc import Callable, Iterable

from sluice.controller.tables import PIPELINE
from sluice.policy import tags
from sluice.policy.controls import CONTROLS
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.policy.schema.field_kinds import MAX_QUEUES, Draft, PolicyEntry
from sluice.policy.schema.fields import POLICY_FIELDS
from sluice.policy.schema.kinds import Kind, ListOf
from sluice.policy.schemes import SCHEMES, Scheme, ThresholdRule
from sluice.policy.schemes.queues import QUEUE_RULES
from sluice.policy.units import format_bytes
from tools.reference import markdown
from tools.reference.markdown import code, joined, page, sentence, table

_FEW = 5
"""A longer list of schemes is written as the schemes that it lacks."""

_ALLOWED = {
    "untagged_queue": "from 0 to the last queue",
    "parameters": "whole numbers from 0 to 4294967295, by the names in the file",
}
_DEFAULTS = {"untagged_queue": "the last queue", "parameters": "those in the file"}
"""In words, where the values differ with the number of queues alone, or with a file."""


def policy_page() -> str:
    """Return docs/reference/policy.md: every field of a policy."""
    fields = [
        (f"[`{field.name}`](#{field.name})" if field.name != "scheme" else "`scheme`", sentence(field.help))
        for field in POLICY_FIELDS
    ]
    counts = range(1, MAX_QUEUES + 1)
    rules = [rule for rule in QUEUE_RULES if any(rule.allows(n) and rule.demotions(n) for n in counts)]
    demotions = [
        [code(rule.label), *(str(rule.demotions(n)) if rule.allows(n) else "–" for n in counts)]
        for rule in rules
    ]
    return page(
        "policy",
        fields=table(("field", "meaning"), fields),
        demotions=table(
            ("queue rule", *(f"{n} queues" if n > 1 else "1 queue" for n in counts)),
            demotions,
        ),
        sections=joined(_section(field) for field in POLICY_FIELDS if field.name != "scheme"),
    )


def _section(field: PolicyEntry) -> str:
    users = [scheme for scheme in SCHEMES.values() if field.applies.test(Draft(scheme))]
    others = [name for name in SCHEMES if SCHEMES[name] not in users]
    who = field.applies.to
    if not users:
        who = f"{who}, none of the tree"
    elif others:
        few = f"all but {_names(others)}" if len(others) <= _FEW else _names(scheme.name for scheme in users)
        who = f"{who}: {few}{'' if field.applies.refusal else '. Other schemes may hold it, without effect'}"
    facts = [
        ("kind", markdown.kind_name(field.kind_of(_at_default(next(iter(users or SCHEMES.values())))))),
        ("schemes", who),
        ("allowed", _ALLOWED.get(field.name) or _by_scheme(users, lambda scheme: _allowed(field, scheme))),
        ("default", _DEFAULTS.get(field.name) or _by_scheme(users, lambda scheme: _default(field, scheme))),
    ]
    return "\n\n".join([f"### `{field.name}`", sentence(field.help), table(("property", "value"), facts)])


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(code, names))


def _at_default(scheme: Scheme) -> Draft:
    return Draft(scheme, {"queues": scheme.queues, "flow_queues": scheme.flow_queues})


def _allowed(field: PolicyEntry, scheme: Scheme) -> str:
    """Bounds of the values; the length of a list has a section of its own."""
    kind: Kind = field.kind_of(_at_default(scheme))
    if not isinstance(kind, ListOf):
        return markdown.allowed(kind)
    if field.name == "overrides":
        return f"up to {kind.longest} overrides"
    count = "one value for each queue" if field.name == "shares" else "one value for each threshold"
    if not kind.because:  # its length does not depend on another field
        count = f"up to {kind.longest} values"
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
    *fewer, (usual, others) = sorted(groups.items(), key=lambda group: len(group[1]))
    lines = [f"{value}: {_names(names)}" for value, names in fewer]
    last = _names(others) if len(others) <= _FEW else "the others"
    return "<br>".join([*lines, f"{usual}: {last}"])


def schemes_page() -> str:
    """Return docs/reference/schemes.md: what each scheme is made of."""
    defaults = [
        (
            code(scheme.name),
            _sizes(scheme.thresholds_bytes),
            _sizes(scheme.marks_bytes),
            f"{scheme.least_share:.0%}" if scheme.least_share else "–",
            format_bytes(scheme.urgent_after_bytes) if scheme.tags_deadlines else "–",
        )
        for scheme in SCHEMES.values()
    ]
    laws = [
        (
            code(control.kernel_name),
            control.echo.value,
            code(control.fallback if control.is_ours else "") or "–",
            code(f"dataplane/laws/{control.name}.h") if control.is_ours else "–",
        )
        for control in CONTROLS
    ]
    return page(
        "schemes",
        schemes=table(
            ("scheme", "from", "congestion control", "thresholds", "queues", "marking", "tags", "runs on"),
            map(_row, SCHEMES.values()),
        ),
        defaults=table(
            ("scheme", "thresholds", "marks at", "least share of each lower queue", "urgent after"), defaults
        ),
        controls=table(("kernel name", "echo of marks", "fallback", "law"), laws),
        about=joined(f"**`{scheme.name}`**: {scheme.about}" for scheme in SCHEMES.values()),
    )


def _row(scheme: Scheme) -> list[str]:
    tags = [*(["urgency"] if scheme.tags_deadlines else []), *(["size class"] if scheme.tags_sizes else [])]
    more = [*(["flow queues"] if scheme.flow_queues else []), *(["shares"] if scheme.least_share else [])]
    return [
        code(scheme.name),
        scheme.paper,
        code(scheme.congestion_control),
        "–" if scheme.threshold_rule is ThresholdRule.NONE else scheme.threshold_rule.value,
        ", ".join([f"{scheme.queues}, {scheme.queue_rule.label}", *more]),
        scheme.marking.value,
        " and ".join(tags) or ("bytes sent" if scheme.queue_rule.reads_tags else "–"),
        SIMULATOR if scheme.simulator_only else f"{TESTBED}, {SIMULATOR}",
    ]


def _sizes(values: Iterable[int]) -> str:
    return ", ".join(format_bytes(value) for value in values) or "–"


def tags_page() -> str:
    """Return docs/reference/tags-and-pipeline.md: the values of the tag, and the tables of a switch."""
    edges = [format_bytes(edge) for edge in tags.EDGES_BYTES[:-1]] + ["–"]
    attained = []
    for first in range(0, tags.ATTAINED_BUCKETS, 8):
        part = edges[first : first + 8]
        label = f"{tags.ATTAINED_FIRST + first}–{tags.ATTAINED_FIRST + first + len(part) - 1}"
        attained.append((label, *part))
    steps = [f"{edge / tags.URGENCY_ONE:.3g}" for edge in tags.URGENCY_EDGES_Q16] + ["–"]
    urgency = [(str(tags.URGENCY_FIRST + step), edge) for step, edge in enumerate(steps)]
    pipeline = [
        (
            f"{spec.table.value} {spec.table.name.lower()}",
            ", ".join(map(code, spec.match)),
            spec.purpose,
            spec.miss,
        )
        for spec in PIPELINE
    ]
    return page(
        "tags-and-pipeline",
        tags=tags,
        sizes=", ".join(f"up to {format_bytes(edge)}" for edge in tags.KNOWN_SIZE_EDGES_BYTES),
        attained=table(("tags", *(f"edge {n}" for n in range(1, 9))), attained),
        urgency=table(("tag", "urgency up to"), urgency),
        tables=table(("table", "matches", "purpose", "nothing matches"), pipeline),
    )
