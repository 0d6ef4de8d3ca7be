# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading

import pytest

from store.engine import open_store
from webui.app import create_app

TOKEN = "the-token"


@pytest.fixture
def engine(tmp_path):
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    yield engine
    engine.dispose()


@pytest.fixture
def app(engine):
    stopping = threading.Event()
    yield create_app(engine, TOKEN, stopping)
    stopping.set()


@pytest.fixture
def client(app):
    return app.test_client()


@pytest.fixture
def bearer():
    return {"Authorization": f"Bearer {TOKEN}"}
