# SPDX-License-Identifier: Apache-2.0
"""The size classes of flows: their limits, and the sizes that the records have."""

from __future__ import annotations

from dataclasses import asdict

from flask import Response, jsonify
from pydantic import BaseModel, Field

from sluice.policy.wire.records import MEDIUM_LIMIT_BYTES, SIZE_CLASSES, SMALL_LIMIT_BYTES
from sluice.store.flow_list import class_sizes
from sluice.webui.api import blueprint
from sluice.webui.fct_models import Source
from sluice.webui.services import services

api = blueprint("classes", __name__, "What small, medium and large mean")


class ClassesQuery(BaseModel):
    source: Source = Field("all", description="whose flows `seen` is about")


class ClassSeenModel(BaseModel):
    n: int = Field(description="number of flows")
    least_bytes: int
    most_bytes: int


class ClassesAnswer(BaseModel):
    limits_bytes: list[int] = Field(
        description="largest small flow and largest medium flow; the `scale` of a workload scales both"
    )
    seen: dict[str, ClassSeenModel | None] = Field(
        description="the sizes of the newest 10,000 flows by class; null if there is none"
    )


@api.get("/classes", responses={200: ClassesAnswer})
def classes(query: ClassesQuery) -> Response:
    """What small, medium and large mean: the limits, and the sizes of the flows that have the class."""
    seen = class_sizes(services().engine, query.source)
    return jsonify(
        limits_bytes=[SMALL_LIMIT_BYTES, MEDIUM_LIMIT_BYTES],
        seen={name: asdict(seen[name]) if name in seen else None for name in SIZE_CLASSES},
    )
