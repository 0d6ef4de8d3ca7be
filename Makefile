# SPDX-License-Identifier: Apache-2.0
# Sluice: every command in one place. `make help` lists them.
SHELL := /bin/bash
PYTHON := .venv/bin/python
DURATION ?=
NAME ?=
C_SOURCES := $(wildcard dataplane/bpf/*.[ch] dataplane/include/*.h hostagent/examples/*.c) \
	$(filter-out %.gen.h,$(wildcard dataplane/laws/*.h)) $(wildcard simulator/core/*.[ch]pp) \
	$(wildcard experiments/checks/ns3/driver/*.[ch]pp)

.DEFAULT_GOAL := help
.PHONY: help setup packages venv bpf fabric frontend gen fmt check test hooks coverage prose bench experiment demo doctor clean

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
	/usr/bin/python3 webui/fetch_vendor.py
	@mkdir -p .setup && touch $@

bpf: venv
	@$(PYTHON) -m dataplane.build

fabric: venv
	@$(PYTHON) -m simulator.build

gen: venv ## write the C header of the tag from policy/tags.py
	$(PYTHON) -m policy.tags > dataplane/laws/tags.gen.h

fmt: venv ## format Python and C
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .
	clang-format -i $(C_SOURCES)

check: setup ## formatting, lint, types, generated files
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy policy runtime dataplane store controller hostagent topologies simulator webui sluice experiments tools tests
	clang-format --dry-run --Werror $(C_SOURCES)
	$(PYTHON) -m policy.tags | diff - dataplane/laws/tags.gen.h
	.venv/bin/pymarkdown --strict-config scan $$(git ls-files '*.md' ':!.github')
	.venv/bin/reuse lint --quiet || .venv/bin/reuse lint

test: setup ## all tests that this machine allows; the others are named with the reason
	$(PYTHON) -m pytest $(ARGS)

hooks: venv ## run the fast checks before each commit, and all of them before each push
	.venv/bin/pre-commit install

coverage: setup ## how much of the Python code the unit and simulator tests run, by package
	.venv/bin/coverage erase
	.venv/bin/coverage run -m pytest tests/unit tests/sim $(ARGS)
	.venv/bin/coverage combine --quiet
	@$(PYTHON) -m tools.coverage_table

prose: venv ## how the prose reads: lengths of sentences, words to avoid, worst files first (ARGS="--worst 40")
	@$(PYTHON) tools/prose $(ARGS)

demo: setup ## the live demonstration on http://127.0.0.1:8080; DURATION=60 ends it by itself
	.venv/bin/sluice demo $(if $(DURATION),--duration $(DURATION))

doctor: setup ## what this machine can do, measured
	.venv/bin/sluice doctor

bench: setup ## cost of the data plane and the control loop, ratios side by side
	.venv/bin/sluice bench

experiment: setup ## run one experiment: make experiment NAME=threshold_convergence
	$(PYTHON) -m experiments $(NAME) $(ARGS)

clean: ## remove what setup and runs made
	rm -rf .venv .setup dataplane/build simulator/build simulator/_fabric.* webui/static/vendor webui/node_modules results *.egg-info .coverage*
