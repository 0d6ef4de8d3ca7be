# One image for the three services of docker-compose.yml.
FROM debian:bookworm-slim

COPY debian-packages.txt tools/install-packages /tmp/setup/tools/
RUN mv /tmp/setup/tools/debian-packages.txt /tmp/setup/ && /tmp/setup/tools/install-packages && rm -rf /tmp/setup /var/lib/apt/lists/*

WORKDIR /opt/sluice
COPY pyproject.toml constraints.txt README.md ./
RUN /usr/bin/python3 -m venv --system-site-packages .venv

COPY . .
RUN .venv/bin/pip install --quiet --no-cache-dir -c constraints.txt -e . && /usr/bin/python3 webui/fetch_vendor.py

ENV PATH=/opt/sluice/.venv/bin:$PATH PYTHONUNBUFFERED=1
RUN useradd --system --uid 10001 --home-dir /run/sluice sluice
