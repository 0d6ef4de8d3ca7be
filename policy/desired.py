# SPDX-License-Identifier: Apache-2.0
"""The desired policy: one validated document that says what every port and host must do.

The REST API stores policies, and the [scheme] table of a scenario holds one. The controller reconciles the switches
towards the newest. The fields are in `policy/fields.py`; this module adds what follows from their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sluice.policy.behaviour import PortBehaviour
from sluice.policy.errors import FieldError
from sluice.policy.fields import POLICY_FIELDS, Override, PolicyFields, read_fields
from sluice.policy.marking import REFERENCE_MARK_BYTES, MarkBy, PortMarking
from sluice.policy.needs import Need
from sluice.policy.overrides import name_port
from sluice.policy.schemes import Marking, Scheme, scheme_named

__all__ = ["Override", "Policy"]


@dataclass(frozen=True)
class Policy(PolicyFields):
    """A policy, immutable. `from_document` makes one and fills in the scheme's defaults."""

    @property
    def definition(self) -> Scheme:
        """The scheme of that name."""
        return scheme_named(self.scheme)

    @property
    def port_marking(self) -> PortMarking:
        """Marking and buffer of the ports to hosts, and of all ports unless `mark_at_core` is set."""
        phantom = self.definition.marking is Marking.PHANTOM
        return PortMarking(
            mark_bytes=None if phantom else self.mark_at or self.mark_min,
            buffer_bytes=self.buffer,
            mark_max_bytes=self.mark_max,
            phantom_mark_bytes=self.mark_at if phantom else None,
            urgent_first=self.urgent_first,
            mark_by=self.mark_by or MarkBy.PORT,
            last_queue=self.queues - 1,
            last_mark_factor=self.last_mark_factor or 1,
        )

    @property
    def core_marking(self) -> PortMarking:
        """Marking and buffer of the ports between switches."""
        if self.mark_at_core is None:
            return self.port_marking
        return replace(self.port_marking, mark_bytes=self.mark_at_core)

    @property
    def port_behaviour(self) -> PortBehaviour:
        """All settings of the ports except their queue maps."""
        return PortBehaviour(
            **asdict(self.port_marking),
            core_mark_bytes=self.mark_at_core,
            shares=self.shares,
            sub_queues=self.sub_queues,
            release_ns=self.release,
            acts_at=self.acts_at,
            untagged_queue=self.untagged_queue,
        )

    def override_of(self, port_id: str) -> Override | None:
        """The override that decides for a port ("s1:2"): the last one that names it. None if no override does."""
        return next((override for override in reversed(self.overrides) if override.names(port_id)), None)

    def fixed_at(self, port_id: str) -> tuple[int, ...] | None:
        """The thresholds in bytes that an override fixes at a port; None if no override does."""
        override = self.override_of(port_id)
        return override.thresholds if override else None

    def is_frozen(self, port_id: str) -> bool:
        """Return whether an override makes the port keep the thresholds that are in force."""
        override = self.override_of(port_id)
        return override is not None and override.freeze

    def acts_at_port(self, port_id: str) -> bool:
        """Return whether the policy acts at a port ("s1:2"). At other ports, it only counts and computes."""
        return name_port(self.acts_at, port_id)

    @property
    def only_watches(self) -> bool:
        """The policy acts at no port, so hosts keep their own congestion control."""
        return not self.acts_at

    def has_levels_of(self, other: Policy) -> bool:
        """Return whether thresholds mean the same under both policies: the same number, for the same queues."""
        return (self.scheme, self.queues) == (other.scheme, other.queues)

    @property
    def needs(self) -> frozenset[Need]:
        """What a fabric must offer to carry out the policy (policy/fabrics.py)."""
        asked = {
            Need.FLOW_QUEUES: self.flow_queues,
            Need.SHARES: self.shares is not None,
            Need.RESERVED_DSCP: bool(self.reserved_dscp),
            Need.CORE_MARKING: self.mark_at_core is not None,
        }
        return self.definition.needs | {need for need, wanted in asked.items() if wanted}

    @classmethod
    def from_document(
        cls, document: Mapping[str, Any], network_mark_bytes: int = REFERENCE_MARK_BYTES
    ) -> Policy:
        """Check a document (JSON or a TOML table) and fill in the scheme's defaults.

        Sizes are bytes, or text with a unit ("10KB", "65pkt"). `network_mark_bytes` is the K to which the defaults are
        fitted (policy/fitting.py). Raises FieldError that names the first bad field.
        """
        policy = cls(**read_fields(document, network_mark_bytes))
        _check_marks(policy)
        _check_limits(policy)
        return policy

    def to_document(self) -> dict[str, Any]:
        """JSON-ready form, the inverse of `from_document`."""
        return {field.name: _plain(getattr(self, field.name)) for field in POLICY_FIELDS}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.to_document() if isinstance(value, Override) else value


def _check_limits(policy: Policy) -> None:
    """Check that some threshold is between the limits. Raises FieldError."""
    least, most = policy.least_threshold, policy.most_threshold
    if least is not None and most is not None and most < least:
        raise FieldError(
            "most_threshold",
            f"must be at least least_threshold, {least} bytes, not {most}: raise it or lower least_threshold",
        )


def _check_marks(policy: Policy) -> None:
    """Check the marking thresholds against each other and against the buffer. Raises FieldError."""
    buffer, at, low, high = policy.buffer, policy.mark_at, policy.mark_min, policy.mark_max
    if policy.definition.marking is Marking.PHANTOM and at is not None and at >= buffer:
        raise FieldError(
            "mark_at",
            f"must be less than buffer, {buffer} bytes, because a phantom queue grows no further, not {at}",
        )
    if low is None or high is None:
        return
    if low >= high:
        raise FieldError("mark_max", f"must be greater than mark_min, {low} bytes, not {high}")
    if high >= buffer:
        raise FieldError(
            "mark_max",
            f"must be less than buffer, {buffer} bytes, not {high}: lower mark_max or raise buffer",
        )
