# SPDX-License-Identifier: Apache-2.0
"""The scoreboard: what each version of the policy did to the flows that lived wholly under it."""

from __future__ import annotations

from flask import Response, jsonify

from sluice.webui.api import blueprint
from sluice.webui.queries import ScoreboardQuery
from sluice.webui.score_models import ScoreboardAnswer
from sluice.webui.scores import scoreboard_document
from sluice.webui.services import services

api = blueprint(
    "scoreboard", __name__, "The figures of each version of the policy, and whether one is better"
)


@api.get("/scoreboard", responses={200: ScoreboardAnswer})
def read_scoreboard(query: ScoreboardQuery) -> Response:
    """The newest versions of the policy that have flows, each compared with one of them.

    A flow counts for a version only if it began two seconds or more after the version was applied, and ended before
    the next one was requested. A flow that lived through a change counts for no version. So long flows are missing if
    versions follow each other quickly.

    Intervals are from a block bootstrap with a fixed seed. A figure is better or worse only if the interval of the
    difference leaves out 0 and both versions have enough flows (30, and 300 for a 99th percentile).
    """
    return jsonify(scoreboard_document(services().engine, query.source, query.against))
