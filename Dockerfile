# SPDX-License-Identifier: Apache-2.0
# One image for the services of docker-compose.yml.
# BASE can be a digest: docs/how-to/containers.md has the command.
ARG BASE=debian:bookworm-slim
FROM ${BASE}

COPY debian-packages.txt /opt/sluice/
COPY tools/install-packages /opt/sluice/tools/
RUN /opt/sluice/tools/install-packages --runtime && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/sluice
COPY requirements/lab.txt requirements/
RUN /usr/bin/python3 -m venv --system-site-packages .venv \
    && .venv/bin/pip install --quiet --no-cache-dir --require-hashes -r requirements/lab.txt
COPY webui/package.json webui/package-lock.json webui/fetch-vendor webui/
RUN webui/fetch-vendor

COPY . .
# The unprivileged services cannot write compiled modules, and would compile all of them at each start.
RUN .venv/bin/pip install --quiet --no-cache-dir --no-deps --no-build-isolation -e . && .venv/bin/python -m sluice.simulator.build \
    && .venv/bin/python -m compileall -q -x 'venv|node_modules' .

ENV PATH=/opt/sluice/.venv/bin:$PATH PYTHONUNBUFFERED=1
RUN useradd --system --uid 10001 --home-dir /run/sluice sluice
