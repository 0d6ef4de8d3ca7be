# Sluice: every command in one place. `make help` lists them.
SHELL := /bin/bash
PYTHON := .venv/bin/python
NODE_TOOLS := webui/node_modules/.bin
DURATION ?=
NAME ?=
C_SOURCES := $(wildcard dataplane/bpf/*.[ch] dataplane/include/*.h hostagent/examples/*.c) \
	$(filter-out %.gen.h,$(wildcard dataplane/laws/*.h)) $(wildcard simulator/core/*.[ch]pp) \
	$(wildcard experiments/checks/ns3/driver/*.[ch]pp)

.DEFAULT_GOAL := help
.PHONY: help setup packages venv bpf fabric frontend gen fmt check test bench experiment demo doctor clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

setup: packages venv frontend bpf fabric ## install everything that is missing (needs root for Debian packages)

packages:
	@tools/install-packages

venv: .setup/venv
.setup/venv: pyproject.toml constraints.txt
	/usr/bin/python3 -m venv --system-site-packages .venv
	.venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@mkdir -p .setup && touch $@

frontend: .setup/frontend
.setup/frontend: webui/package.json webui/package-lock.json webui/fetch_vendor.py
	/usr/bin/python3 webui/fetch_vendor.py --tools
	@mkdir -p .setup && touch $@

bpf: venv
	@$(PYTHON) -m dataplane.build

fabric: venv
	@$(PYTHON) -m simulator.build

gen: venv ## write the C header of the tag from policy/tags.py
	$(PYTHON) -m policy.tags > dataplane/laws/tags.gen.h

fmt: venv frontend ## format Python, C and JavaScript
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .
	clang-format -i $(C_SOURCES)
	$(NODE_TOOLS)/biome check --write

check: setup ## formatting, lint, types, generated files
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy policy runtime dataplane store controller hostagent topologies simulator webui sluice experiments
	clang-format --dry-run --Werror $(C_SOURCES)
	$(NODE_TOOLS)/biome ci --error-on-warnings
	$(NODE_TOOLS)/tsc -p webui
	$(NODE_TOOLS)/tsc -p tests/unit/webui/javascript
	$(PYTHON) -m policy.tags | diff - dataplane/laws/tags.gen.h

test: setup ## all tests that this machine allows; the others are named with the reason
	$(PYTHON) -m pytest $(ARGS)

demo: setup ## the live demonstration on http://127.0.0.1:8080; DURATION=60 ends it by itself
	.venv/bin/sluice demo $(if $(DURATION),--duration $(DURATION))

doctor: setup ## what this machine can do, measured
	.venv/bin/sluice doctor

bench: setup ## cost of the data plane and the control loop, ratios side by side
	.venv/bin/sluice bench

experiment: setup ## run one experiment: make experiment NAME=threshold_convergence
	$(PYTHON) -m experiments $(NAME) $(ARGS)

clean: ## remove what setup and runs made
	rm -rf .venv .setup dataplane/build simulator/build simulator/_fabric.* webui/static/vendor webui/node_modules results *.egg-info
