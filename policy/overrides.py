# SPDX-License-Identifier: Apache-2.0
"""The policy's `overrides`: thresholds that a user fixes or freezes at some ports."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sluice.policy.errors import FieldError, unknown_key
from sluice.policy.kinds import Flag, Kind, ListOf, Schema, Text
from sluice.policy.schemes import Scheme

_PORT_NAME = Text(r"(\*|[A-Za-z0-9._-]{1,64}:(\*|[0-9]{1,9}))", what='a name such as "s1:2", "s2:*" or "*"')
_PORT_NAMES = ListOf(_PORT_NAME, shortest=1)
PORT_NAMES = ListOf(_PORT_NAME)
"""Names of ports; the list may be empty."""
_KEYS = ("ports", "thresholds", "freeze")


def name_port(names: Collection[str], port_id: str) -> bool:
    """Return whether one of the names is of this port, of its whole switch, or of all ports."""
    return any(name in (port_id, f"{port_id.rpartition(':')[0]}:*", "*") for name in names)


@dataclass(frozen=True)
class Override:
    """A rule for some ports. It sets their thresholds, or freezes the thresholds that are in force."""

    ports: tuple[str, ...]
    """Names of ports ("s1:2"), all ports of a switch ("s1:*"), or all ports ("*")."""
    thresholds: tuple[int, ...] | None
    """Bytes. None if the port keeps the thresholds that are in force."""
    freeze: bool

    def names(self, port_id: str) -> bool:
        """Return whether the rule applies to this port."""
        return name_port(self.ports, port_id)

    def to_document(self) -> dict[str, Any]:
        """JSON-ready form."""
        fixed = {"thresholds": list(self.thresholds)} if self.thresholds is not None else {"freeze": True}
        return {"ports": list(self.ports), **fixed}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Override:
        """The inverse of `to_document`, for documents that have been checked."""
        fixed = document.get("thresholds")
        return cls(tuple(document["ports"]), None if fixed is None else tuple(fixed), fixed is None)


@dataclass(frozen=True)
class OverrideTable(Kind):
    """A table with `ports`, and with either `thresholds` or `freeze = true`."""

    name: ClassVar[str] = "override"
    is_table: ClassVar[bool] = True
    thresholds: ListOf
    scheme: Scheme

    def read(self, where: str, value: object) -> Override:
        if not isinstance(value, Mapping):
            raise FieldError(where, f"must be {self.allowed}")
        for key in value:
            if key not in _KEYS:
                raise unknown_key(f"{where}.{key}", str(key), _KEYS)
        fixed, freeze = value.get("thresholds"), value.get("freeze")
        frozen = freeze is not None and Flag().read(f"{where}.freeze", freeze)
        if frozen == (fixed is not None):
            raise FieldError(where, "needs either thresholds or freeze = true, and not both")
        ports = _PORT_NAMES.read(f"{where}.ports", value.get("ports"))
        if frozen and not self.scheme.threshold_rule.adapts:
            raise FieldError(
                f"{where}.freeze", f"scheme {self.scheme.name} does not adapt: omit the override"
            )
        levels = None if frozen else self.thresholds.read(f"{where}.thresholds", fixed)
        return Override(ports, levels, frozen)

    def show(self, value: Any) -> str:
        does = (
            f"thresholds = {self.thresholds.show(value.thresholds)}"
            if value.thresholds is not None
            else "freeze = true"
        )
        return f"{{ ports = {_PORT_NAMES.show(value.ports)}, {does} }}"

    @property
    def allowed(self) -> str:
        return "a table with ports, and with thresholds or freeze = true"

    def schema(self) -> Schema:
        ports = _PORT_NAMES.schema()
        kinds: list[Schema] = [{"ports": ports, "thresholds": self.thresholds.schema()}]
        if self.scheme.threshold_rule.adapts:
            kinds.append({"ports": ports, "freeze": {"const": True, "type": "boolean"}})
        closed = {"type": "object", "additionalProperties": False}
        return {"anyOf": [{"properties": kind, "required": list(kind), **closed} for kind in kinds]}
