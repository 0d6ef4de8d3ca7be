# SPDX-License-Identifier: Apache-2.0
"""Changes of a few keys of a policy: the rest stays, and what followed from a default follows the new values.

A stored policy names every field. `chosen` finds the fields that someone has set, because the others equal the default
that the scheme and the fields above give. So a buffer of "20 times mark_at" is that after a change of mark_at, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sluice.policy.desired import Policy
from sluice.policy.errors import FieldError
from sluice.policy.field_entry import Draft, PolicyEntry
from sluice.policy.fields import POLICY_FIELDS, scheme_of
from sluice.policy.kinds import ListOf
from sluice.policy.overrides import Override

DEFAULT = "default"
"""As the value of a key: the scheme's default again."""


def chosen(policy: Policy) -> dict[str, Any]:
    """Return the values that differ from their defaults. `Policy.from_document` makes the same policy of them."""
    document = policy.to_document()
    values: dict[str, Any] = {}
    made: dict[str, Any] = {"scheme": policy.scheme}
    for field in POLICY_FIELDS:
        value = getattr(policy, field.name)
        if field.name != "scheme" and value != _default(field, Draft(policy.definition, values)):
            made[field.name] = document[field.name]
        values[field.name] = value
    return made


def _default(field: PolicyEntry, draft: Draft) -> object:
    """Return the default; a value that equals no other if the field must be given."""
    try:
        return field.read({}, draft)
    except FieldError:
        return object()


def changed(policy: Policy, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with new values for some keys; the value DEFAULT gives a key its default again.

    With another scheme, the document names only the settings, because `sluice.policy.fitting` decides what the network
    keeps. Raises FieldError that names the key.
    """
    scheme = scheme_of({"scheme": policy.scheme, **settings})
    if scheme is not policy.definition:
        return {key: value for key, value in settings.items() if value != DEFAULT}
    document = {**chosen(policy), **settings}
    return Policy.from_document({key: one for key, one in document.items() if one != DEFAULT}).to_document()


def is_list(key: str, policy: Policy) -> bool:
    """Return whether the value of a key is a list. An unknown key is none."""
    return any(
        field.name == key and isinstance(field.kind_of(_draft(policy)), ListOf) for field in POLICY_FIELDS
    )


def _draft(policy: Policy) -> Draft:
    return Draft(policy.definition, {field.name: getattr(policy, field.name) for field in POLICY_FIELDS})


# ── Overrides of ports ─────────────────────────────────────────────────────────────────────────────────────────────


def overridden(policy: Policy, port: str, rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that give one port this rule, thresholds or freeze. It replaces the port's own rule."""
    left = _documents(_without_port(policy.overrides, port))
    return {"overrides": [*left, {"ports": [port], **rule}]}


def not_overridden(policy: Policy, port: str) -> dict[str, Any]:
    """Return the settings without the port's own rule. Raises FieldError if no override names the port itself."""
    if not any(port in override.ports for override in policy.overrides):
        wide = policy.override_of(port)
        rest = f"; {', '.join(wide.ports)} includes it, so change that override" if wide else ""
        raise FieldError("overrides", f"no override names {port} itself{rest}")
    return {"overrides": _documents(_without_port(policy.overrides, port))}


def _without_port(overrides: Iterable[Override], port: str) -> Iterator[Override]:
    """Yield the overrides without this name, except those that name nothing else."""
    for override in overrides:
        names = tuple(name for name in override.ports if name != port)
        if names:
            yield replace(override, ports=names)


def frozen(policy: Policy, ports: Iterable[str]) -> dict[str, Any]:
    """Return the settings that freeze the thresholds in force at these ports. An override of its own does it."""
    new = {"ports": list(ports), "freeze": True}
    return {"overrides": [*_documents(policy.overrides), new]}


def unfrozen(policy: Policy, ports: Iterable[str]) -> dict[str, Any]:
    """Return the settings that end the freezing of these ports. Raises FieldError for a port that is not frozen."""
    left = policy.overrides
    for port in ports:
        if not any(override.freeze and port in override.ports for override in left):
            raise FieldError(
                port, f"no override freezes {port} by this name; frozen are {_frozen_names(left)}"
            )
        left = tuple(_without(override, port) for override in left)
    return {"overrides": _documents(override for override in left if override.ports)}


def _without(override: Override, port: str) -> Override:
    if not override.freeze:
        return override
    return replace(override, ports=tuple(name for name in override.ports if name != port))


def _frozen_names(overrides: Iterable[Override]) -> str:
    names = [name for override in overrides if override.freeze for name in override.ports]
    return ", ".join(dict.fromkeys(names)) or "no ports"


def _documents(overrides: Iterable[Override]) -> list[dict[str, Any]]:
    return [override.to_document() for override in overrides]
