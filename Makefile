# SPDX-License-Identifier: Apache-2.0
# Sluice: every command in one place. `make help` lists them.
SHELL := /bin/bash
PYTHON := .venv/bin/python
# The Python of the virtual environment. The testbed needs the system's, because Mininet is Debian's.
PYTHON3 ?= /usr/bin/python3
# Files of packages are compared with the hashes in requirements/.
PIP := .venv/bin/pip install --quiet --disable-pip-version-check
PIP_HASHED := $(PIP) --require-hashes -r
NODE_TOOLS := webui/node_modules/.bin
# The variable silences a notice about another tool. With --quiet, --strict would overlook warnings.
MKDOCS := NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs
DURATION ?=
STAGE ?=
NAME ?=
JOBS ?= 6
# Keep compiled modules. Tests start hundreds of processes, and each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
export OPENBLAS_NUM_THREADS := 1
CORE_SOURCES := $(wildcard simulator/core/*/*.[ch]pp simulator/core/*/*/*.[ch]pp)
C_SOURCES := $(wildcard topologies/*.c dataplane/bpf/*.[ch] dataplane/include/*.h hostagent/examples/*.c experiments/peers/*.h) \
	$(filter-out %.gen.h,$(wildcard dataplane/laws/*.h)) $(CORE_SOURCES) \
	$(wildcard experiments/checks/ns3/driver/*.[ch]pp tests/sim/*.cpp)

# Tests that run on an instrumented core, and the least share of its lines that they must cover, in percent. Raise it
# when it rises; never lower it.
CORE_TESTS := $(addprefix tests/sim/test_,schemes.py conservation.py congestion.py recovery.py disciplines.py routing.py \
	lone_flow.py changes.py threads.py tcp_variants.py window_laws.py hostile_sender.py determinism.py live_network.py limits.py hooks.py homa.py trace.py)
CORE_COVERAGE := 96

.DEFAULT_GOAL := help
.PHONY: help tour runnable measurable setup debian-packages packages test-packages test-deploy guests test-kernels test-cluster venv simulated bpf fabric frontend gen fmt \
	check check-python check-types check-native check-pages tidy docs test test-timing test-steady sanitize hooks fuzz fuzz-parsers soak model model-traces pins audit sbom coverage coverage-cpp \
	bench bench-page screenshots experiment demo doctor clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

# tools/setup does what is missing, and says beforehand how long that takes.
setup: ## install everything that is missing (needs root for Debian packages)
	@tools/setup debian python page-tools bpf core

debian-packages:
	@tools/setup debian

packages: venv frontend ## build the Debian packages and the wheels in build/packages
	$(PYTHON) -m tools.packages

test-packages: packages ## install, start, upgrade, remove and purge the packages in a clean Debian 12 (root)
	packaging/test-packages
	packaging/test-wheel /usr/bin/python3

# The base systems of the machines come from Debian's archive once, and stay in build/packages.
test-deploy: packages guests ## follow docs/deploying/two-racks.md on machines with the packages, and try the units (root, minutes)
	tests/deploy/machines base build/packages
	$(PYTHON) -m pytest -x -v tests/deploy $(ARGS)

venv: .setup/venv
.setup/venv: pyproject.toml requirements/dev.txt
	@tools/setup python

frontend:
	@tools/setup page-tools

# What a simulated demonstration needs: a compiler and the Python packages that it imports.
simulated:
	@tools/setup simulator python-demo page core

bpf:
	@tools/setup python bpf

fabric:
	@tools/setup python core

gen: venv frontend ## write what is made from the code: C headers from policy/, the page's types, and the reference pages
	$(PYTHON) -m tools.generate

fmt: venv frontend ## format Python, C and JavaScript
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .
	clang-format -i $(C_SOURCES)
	$(NODE_TOOLS)/biome check --write

check: check-python check-types check-native check-pages ## formatting, lint, types, generated files, the documentation site

check-python: venv
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/reuse lint --quiet || .venv/bin/reuse lint

check-types: fabric
	.venv/bin/mypy sluice experiments tools tests

check-native: setup tidy
	@clang-format --dry-run --Werror $(C_SOURCES)
	$(NODE_TOOLS)/biome ci --error-on-warnings
	$(PYTHON) -m tools.generate --check --only types
	$(NODE_TOOLS)/tsc -p webui
	$(NODE_TOOLS)/tsc -p tests/unit/webui/javascript

check-pages: venv
	$(PYTHON) -m tools.generate --check --only headers pages
	$(MKDOCS) build --strict
	.venv/bin/pymarkdown --strict-config scan $$(git ls-files '*.md' ':!.github')

docs: venv ## the documentation site in build/site; nothing in it comes from the network
	$(MKDOCS) build --strict
	@echo "open build/site/index.html, or for its search: $(PYTHON) -m http.server --directory build/site 8000"

tidy: .setup/tidy ## clang-tidy on the simulator's core, if it has changed
.setup/tidy: .setup/venv tools/tidy-core .clang-tidy $(CORE_SOURCES) $(wildcard dataplane/laws/*.h)
	tools/tidy-core $(PYTHON)
	@touch $@

# The interpreter is not sanitized: the sanitizer's library must come first, and leaks of the interpreter do not count.
sanitize: venv ## every test of the simulator with the address, undefined-behaviour and thread sanitizers, in a quarter of an hour
	$(PYTHON) -m sluice.simulator.build sanitize
	LD_PRELOAD="$$(c++ -print-file-name=libasan.so) $$(c++ -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
		SLUICE_CORE=sanitize $(PYTHON) -m pytest -q -p tests.sim.instrumented --timeout 1800 tests/sim
	$(PYTHON) -m sluice.simulator.build races
	LD_PRELOAD="$$(c++ -print-file-name=libtsan.so)" TSAN_OPTIONS=halt_on_error=1 SLUICE_CORE=races \
		setarch -R $(PYTHON) -m pytest -q -n0 -p tests.sim.instrumented --timeout 1800 tests/sim/test_threads.py -k "not run__says"

coverage-cpp: venv ## line coverage of the simulator's core and the laws by its tests
	$(PYTHON) -m sluice.simulator.build coverage
	find simulator/build/coverage -name '*.gcda' -delete
	SLUICE_CORE=coverage $(PYTHON) -m pytest -q -p tests.sim.instrumented $(CORE_TESTS)
	$(PYTHON) -m gcovr --root . --object-directory simulator/build/coverage simulator/build/coverage \
		--filter simulator/core/ --filter dataplane/laws/ --fail-under-line $(CORE_COVERAGE)

# Six files at once use two cores, because many tests wait most of the time. tests/conftest.py mixes the files.
TIERS := $(addprefix tests/,api kernel net pg sim unit web)
test: setup ## all tests that this machine allows; ARGS="-k recovery" or a path chooses some
	@tools/in-memory $(PYTHON) -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder \
		$(if $(filter tests/%,$(ARGS)),,$(TIERS)) $(ARGS)

test-timing: setup ## tests that judge real time, on a quiet machine; repeats each until its confidence interval decides
	@$(PYTHON) -m tools.timing $(or $(ARGS),tests)

N ?= 10
test-steady: ## `make test` N=10 times in fresh clones, the odd ones beside a busy core; prints failures and times
	@tools/steady $(N)

# Without QEMU or the kernels, the tests that need them are skipped with the reason.
guests: ## QEMU and Debian's kernels, for tests under these kernels
	@tools/setup guests && tools/guest fetch || echo "tests under other kernels will be skipped" >&2

test-kernels: setup guests ## the data plane and the testbed under Debian's kernels 6.1 and 6.12, in virtual machines
	$(PYTHON) -m pytest tests/kernels $(ARGS)

test-cluster: setup ## sweeps on real Slurm, with a controller and two nodes on this machine (root)
	@tools/install-packages --cluster
	$(PYTHON) -m pytest -q -n 0 tests/cluster $(ARGS)

test-kubernetes: setup ## the chart against the schemas of two releases of Kubernetes, its agent, and real containers (root)
	@tools/install-packages --kubernetes
	$(PIP_HASHED) requirements/kubernetes.txt
	GOBIN=$(CURDIR)/.setup/bin .venv/bin/go install helm.sh/helm/v3/cmd/helm@v3.19.5
	$(PYTHON) -m pytest -q -n 0 tests/kubernetes $(ARGS)

test-fast: venv fabric ## tests of the tiers unit and simulator in about a minute: without the slow ones and PostgreSQL
	@tools/in-memory $(PYTHON) -m pytest -q -n logical --dist worksteal -m "not slow and not timing and not pg" tests/unit tests/sim $(ARGS)

MINUTES ?= 10
SEED ?=
fuzz: setup ## property tests with new random examples for MINUTES=10; prints the seed of each round, SEED=7 repeats one
	tools/fuzz $(PYTHON) $(MINUTES) $(SEED)

fuzz-parsers: venv ## fuzz every parser for MINUTES=10 each, guided by coverage; SEED=7 repeats; MINUTES=keep keeps the corpus
	$(PIP_HASHED) requirements/fuzz.txt
	nice -n 19 tools/fuzz-parsers $(PYTHON) $(MINUTES) $(SEED)

# Java and Maven are needed for this alone, so setup does not install them.
model: venv ## check the model of the lease, of roles and generations (tests/model) with TLC, in half an hour
	$(PYTHON) -m tools.model

model-traces: venv ## write the traces of the model that a test drives the code through
	$(PYTHON) -m tools.model --traces

# In an environment of its own, because Sluice needs none of it.
.setup/audit/bin/uv: requirements/audit.txt
	$(PYTHON3) -m venv .setup/audit
	.setup/audit/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/audit.txt
	@touch $@

pins: .setup/audit/bin/uv ## write requirements/ (every package with its hashes) after a change of constraints.txt
	tools/pins .setup/audit/bin/uv

audit: .setup/audit/bin/uv ## known vulnerabilities of all packages; says so if a registry does not answer
	tools/audit .setup/audit/bin

sbom: .setup/audit/bin/uv ## lists of all packages in build/sbom, as CycloneDX
	tools/sbom .setup/audit/bin

hooks: venv ## run the fast checks before each commit, and all of them before each push
	.venv/bin/pre-commit install

coverage: setup ## how much of the Python code the unit and simulator tests run, by file
	.venv/bin/coverage erase
	.venv/bin/coverage run -m pytest tests/unit tests/sim $(ARGS)
	.venv/bin/coverage combine --quiet
	@.venv/bin/coverage report

demo: runnable ## the live demonstration on http://127.0.0.1:8080; DURATION=60 ends it by itself
	@.venv/bin/sluice demo $(if $(DURATION),--duration $(DURATION))

tour: runnable ## five schemes one after the other with the same flows, and a table that compares them; STAGE=20 seconds of each
	@.venv/bin/sluice demo --tour $(if $(STAGE),--tour-seconds $(STAGE)) --out results/tour

# What these two need, without what only tests and checks need. Where the testbed cannot run, no Debian package would
# help: the simulator needs a C++ compiler and what pip installs.
runnable:
	@if $(PYTHON3) -m sluice.runs.obstacle > /dev/null 2>&1; then tools/setup demo python-demo page core bpf; \
		else tools/setup simulator python-demo page core; fi

# The same, and what benchmarks and experiments start besides.
measurable:
	@tools/setup lab python-lab page core bpf

doctor: runnable ## what this machine can do, measured
	.venv/bin/sluice doctor

bench: measurable ## cost of data plane, control loop, store and simulator, ratios side by side; ARGS="--only control" for one
	$(PYTHON) -m experiments.bench $(ARGS)

bench-page: setup ## weight and memory of the dashboard on 200 and on 1,000 ports, in some minutes (Chromium)
	$(PYTHON) -m tools.page_weight $(ARGS)

screenshots: setup ## new pictures of the dashboard in docs/, from a simulated demonstration, in three minutes (Chromium)
	$(PYTHON) -m tools.screenshots $(ARGS)

experiment: measurable ## run one experiment: make experiment NAME=dyna_fig6 ARGS=--quick; without NAME, list all
	$(PYTHON) -m experiments $(NAME) $(ARGS)

HOURS ?= 6
soak: measurable ## HOURS=6 of flows, killed processes and changed schemes on the testbed; draws memory, descriptors and records
	$(PYTHON) -m experiments soak --seconds $$(( 3600 * $(HOURS) )) --concurrent 40 --kill-every 120 --loads 10 $(ARGS)

clean: ## remove what setup and runs made
	rm -rf .venv .setup build dataplane/build simulator/build simulator/_fabric.* webui/static/vendor webui/node_modules results *.egg-info .coverage*
