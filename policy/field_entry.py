# SPDX-License-Identifier: Apache-2.0
"""One field of a policy: how it is read, and how it appears in forms and JSON schemas.

The table of all fields is `policy/fields.py`. Both the kind and the default of a field may depend on the scheme,
and on the fields above it in the table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sluice.policy.entries import Entry
from sluice.policy.errors import FieldError
from sluice.policy.kinds import Kind, Schema
from sluice.policy.marking import REFERENCE_MARK_BYTES
from sluice.policy.schemes import Scheme, ThresholdRule

MAX_QUEUES = 8


@dataclass(frozen=True)
class Draft:
    """A policy document while it is read: its scheme, and the values read so far."""

    scheme: Scheme
    read: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Values of the fields above the current one. Empty if the answer must hold for every document of the scheme."""
    network_mark_bytes: int = REFERENCE_MARK_BYTES
    """K that the network's links need (policy/fitting.py). The defaults of marks and buffer are in proportion to it."""

    @property
    def queues(self) -> int:
        """The number of queues. While it is unknown: the largest number that the scheme can have."""
        most = self.scheme.queues if self.scheme.threshold_rule is ThresholdRule.NONE else MAX_QUEUES
        return int(self.read.get("queues", most))

    @property
    def has_queues(self) -> bool:
        """The number of queues is known."""
        return "queues" in self.read


Of: TypeAlias = Callable[[Draft], Any]
"""A value that depends on the draft."""


@dataclass(frozen=True)
class Applies:
    """The schemes in which a field applies."""

    to: str
    """In words, for the reference."""
    test: Callable[[Draft], bool]
    refusal: Callable[[Draft], str] | None
    """Why a document of another scheme must omit the field. None: it may set the field, without effect."""


EVERYWHERE = Applies("every scheme", lambda draft: True, None)


@dataclass(frozen=True)
class PolicyEntry:
    """One field of a policy."""

    name: str
    title: str
    """One to three words, for the form."""
    help: str
    kind_of: Callable[[Draft], Kind]
    default_of: Of
    applies: Applies
    absent: Any
    """The value in schemes without the field."""
    null_is_value: bool
    """Null is a value of its own. For all other fields, null means the default."""
    of_network: bool
    """The value belongs to the network, not to the scheme: a change of the policy keeps it unless it names another."""

    def read(self, document: Mapping[str, Any], draft: Draft) -> Any:
        """Return the value in the document, or the default. Raises FieldError."""
        value = document.get(self.name)
        if not self.applies.test(draft) and self.applies.refusal is not None:
            empty = value in ([], ()) if self.absent == () else value is self.absent
            if not (value is None or empty):
                raise FieldError(self.name, f"{self.applies.refusal(draft)}; omit {self.name}")
            return self.absent
        if value is not None:
            return self.kind_of(draft).read(self.name, value)
        if self.null_is_value and self.name in document:
            return None
        return self.default_of(draft)

    def entry(self, scheme: Scheme) -> Entry | None:
        """The field as an entry of this scheme's documents; None if the scheme does not use the field."""
        draft = Draft(scheme)
        if not self.applies.test(draft):
            return None
        at_default = Draft(scheme, {"queues": scheme.queues, "flow_queues": scheme.flow_queues})
        default = self.default_of(at_default)
        return Entry(self.name, self.name, self.kind_of(draft), self.help, self.title, default, nullable=True)

    def schema(self, scheme: Scheme) -> Schema:
        """JSON schema of the field in documents of this scheme."""
        draft, null = Draft(scheme), {"type": "null"}
        if not self.applies.test(draft) and self.applies.refusal is not None:
            empty: list[Schema] = [{"type": "array", "maxItems": 0}] if self.absent == () else []
            return {"anyOf": [*empty, null]}
        return {"anyOf": [{"description": self.help, **self.kind_of(draft).schema()}, null]}


def policy_field(
    kind: Kind | Callable[[Draft], Kind],
    help: str,
    *,
    title: str,
    default: Any,
    applies: Applies = EVERYWHERE,
    absent: Any = None,
    null_is_value: bool = False,
    of_network: bool = False,
) -> Any:
    """A field of the table, as a dataclass field. `default` is a value or a function of the draft."""
    kind_of = (lambda draft: kind) if isinstance(kind, Kind) else kind
    default_of = default if callable(default) else (lambda draft: default)
    values = {
        "title": title,
        "help": help,
        "kind_of": kind_of,
        "default_of": default_of,
        "applies": applies,
        "absent": absent,
        "null_is_value": null_is_value,
        "of_network": of_network,
    }
    return dataclasses.field(metadata=values)
