# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine

from store.engine import open_store
from webui.app import create_app

TOKEN = "the-token"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    yield engine
    engine.dispose()


@pytest.fixture
def app(engine: Engine) -> Iterator[Flask]:
    stopping = threading.Event()
    yield create_app(engine, TOKEN, stopping)
    stopping.set()


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


@pytest.fixture
def bearer() -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKEN}"}
