# SPDX-License-Identifier: Apache-2.0
"""Other programs' connections, as the agents' flow watch sees them: those that live, those that have ended lately."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from sqlalchemy import Engine

from policy.records import WATCHED
from store.flows import newest_flows
from webui.errors import ApiError

FIELD = "connections"
"""In a host agent's heartbeat: a list of LivingConnection."""
MOST_PER_AGENT = 100
MOST_LIVING, MOST_ENDED = 50, 20
ENDED_WINDOW_S = 60.0

_Endpoint = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{1,64}$")]
_Port = Annotated[int, Field(ge=1, le=65_535)]
_Epoch = Annotated[float, Field(ge=0, le=1e11)]


class LivingConnection(BaseModel):
    """A TCP connection while it lives, told by the host that sends most of its data."""

    model_config = ConfigDict(strict=True, extra="forbid")

    id: str = Field(pattern=r"^[A-Za-z0-9._:/-]{1,96}$", description="of the flow record to come")
    src: _Endpoint
    src_port: _Port
    dst: _Endpoint
    dst_port: _Port
    bytes: int = Field(ge=0, le=10**18)
    rate_bps: int = Field(ge=0, le=10**18, description="over about the last second")
    started_at: _Epoch
    deadline_at: _Epoch | None = Field(description="told by the program")
    retransmissions: int | None = Field(ge=0, le=2**40)
    congestion_control: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    srtt_us: float | None = Field(ge=0, le=1e12)


_LIST = TypeAdapter(list[LivingConnection])


def connections_schema() -> dict[str, Any]:
    """JSON schema of the heartbeat's field."""
    return {"type": "array", "maxItems": MOST_PER_AGENT, "items": LivingConnection.model_json_schema()}


def check_connections(heartbeat: Mapping[str, Any]) -> None:
    """ApiError 422 when the heartbeat's connections are not what everybody else is to be shown."""
    told = heartbeat.get(FIELD, [])
    if isinstance(told, list) and len(told) > MOST_PER_AGENT:
        raise ApiError(422, "invalid-field", f"must be at most {MOST_PER_AGENT}", FIELD)
    try:
        _LIST.validate_python(told)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, (FIELD, *first["loc"])))
        raise ApiError(422, "invalid-field", first["msg"], place) from None


def living_connections(agents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of the agents that are alive (documents of health), the fastest first."""
    found = [told for agent in agents if agent["alive"] for told in agent["status"].get(FIELD, [])]
    return sorted(found, key=lambda told: (-told["rate_bps"], told["id"]))[:MOST_LIVING]


def ended_connections(engine: Engine, now: float) -> list[Mapping[str, Any]]:
    """Watched flows whose record came within the last minute, the newest first."""
    return newest_flows(engine, now - ENDED_WINDOW_S, WATCHED, MOST_ENDED)


def lost_connections(agents: Iterable[Mapping[str, Any]]) -> int:
    """How many connections the watches of the living agents have missed."""
    counts = (agent["status"].get("connections_lost") for agent in agents if agent["alive"])
    return sum(count for count in counts if isinstance(count, int))
