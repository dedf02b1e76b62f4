# Two commands do everything: `make demo` and `make test`.

PYTHON ?= python3
VENV   ?= .venv
comma  := ,
BIN    := $(VENV)/bin
# Of `make fuzz`: how long for each target, which targets, and RECORD=--record to keep the inputs.
SECONDS ?= 60
TARGETS ?= capability toml json module
RECORD  ?=
# Of `make test-vm`: arguments of pytest inside, or `shell`.
VM_ARGS ?=
# Of `make test-vm-systemd`: the release of Debian whose systemd is booted.
SUITE   ?= bookworm
# Two processors, and tests that wait for engines, clocks and each other.
WORKERS ?= 5
# Of `make frameworks`: which; all without.
NAMES   ?=
# Of `make mutants`: parts of names; all without.
PARTS   ?=
# Backends that must work here for the tests to pass; engines are private ones, which take root.
REQUIRED := native,landlock,bubblewrap,firejail,wasm$(if $(filter 0,$(shell id -u)),$(comma)docker$(comma)podman)
SOURCES := $(shell find src launcher entry -name '*.py' -o -name '*.c' -o -name '*.h' -o -name '*.caps' -o -path '*/images/recipes/*') scripts/corral scripts/corral-python scripts/corral-agent-shell pyproject.toml hatch_build.py

unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help install demo test test-all fast check lint types format bench selftest clean packages fuzz prepared collected images mutants frameworks test-vm test-vm-systemd

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## Make .venv and install corral into it.

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "corral needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check .
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[dev]'
	@touch $(VENV)/.installed $@

$(VENV)/.fuzz: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[fuzz]'
	@touch $@

demo: install ## Watch hostile commands being contained.
	@$(BIN)/corral demo

packages: ## Install the system packages that the tests need (as root, with apt).
	@sh tests/support/packages.sh $(PACKAGES)

test: prepared ## Install what the tests need, and run them: ten minutes at most.
	$(BIN)/python -m pytest -n $(WORKERS) --durations 25 --require $(REQUIRED)

test-all: PACKAGES = all
test-all: prepared frameworks ## Run everything there is, other kernels and mutants too: 25 minutes.
	$(BIN)/python -m pytest --all -n $(WORKERS) --durations 25 --require $(REQUIRED)
	$(BIN)/python tests/vm/run.py --where-possible
	$(BIN)/python tests/vm/systemd_run.py --where-possible
	$(MAKE) mutants

frameworks: $(VENV)/.dev ## Install the frameworks that corral has adapters for, each in .frameworks; NAMES='inspect smolagents'.
	@PYTHONPATH=tests $(BIN)/python -m support.frameworks $(NAMES)

prepared: packages
	@$(MAKE) --no-print-directory --jobs 3 --output-sync images lint types collected

collected: $(VENV)/.dev # Once, so that not every worker has to compile the tests for itself.
	@$(BIN)/python -m pytest --collect-only -q >.collected || { cat .collected; exit 1; }

images: packages ## Build the container image that the tests use, once. It needs no .venv, and is built beside it.
	@PYTHONPATH=src:tests $(PYTHON) -m support.images python

test-vm: packages $(VENV)/.dev ## Boot an older kernel with cgroup v2 and test there; VM_ARGS='tests/limits -k memory'.
	@$(BIN)/python tests/vm/run.py $(VM_ARGS)

test-vm-systemd: packages $(VENV)/.dev ## Boot systemd and test its scopes; SUITE=trixie for a newer one.
	@$(BIN)/python tests/vm/systemd_run.py $(SUITE)

mutants: packages $(VENV)/.dev ## Break corral in every known way, and see that a test notices each; PARTS='filter. record.wall'.
	@$(BIN)/python tests/mutants/run.py $(PARTS)

fast: $(VENV)/.dev ## Run the tests that need no kernel feature: a minute at most. They start no sandbox.
	$(BIN)/python -m pytest -q -n 2 --no-sandbox tests/unit tests/property tests/golden tests/architecture tests/fuzz

check: test ## Everything that must pass before a change lands.

lint: $(VENV)/.dev ## Check style and formatting.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## Check types, as on Linux, on macOS, and of what Windows imports.
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/macos/darwin.toml
	$(BIN)/mypy --config-file tests/macos/win32.toml

format: $(VENV)/.dev ## Bring the code into shape.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(VENV)/.fuzz ## Fuzz what reads texts; SECONDS=60 is for each, RECORD=--record keeps the inputs.
	@set -e; for target in $(TARGETS); do \
		$(BIN)/python tests/fuzz/fuzz.py $$target --seconds $(SECONDS) $(RECORD); done

selftest: install ## Attack the sandbox on this host.
	@$(BIN)/corral selftest

bench: packages $(VENV)/.dev ## Measure against bare processes and peers; the tables go to docs/performance.md.
	@$(BIN)/python bench/run.py --record
	@$(BIN)/python bench/entry_program.py --record
	@$(BIN)/python bench/network.py --record
	@$(BIN)/python bench/wasm.py --record
	@$(BIN)/python bench/mcp_calls.py --record

clean: ## Remove what the other targets made.
	rm -rf $(VENV) build dist src/corral/bin .pytest_cache .mypy_cache .ruff_cache .hypothesis .vm .images .frameworks .collected
