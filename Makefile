# Everything that a contributor or CI runs. `make` alone lists it. All that is built stays below this folder.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CACHE := .cache
STAMPS := $(CACHE)/stamps
TOOLS := $(CACHE)/bin

# The S3 server of the tests, the demo and the benchmark.
VERSITYGW := $(TOOLS)/versitygw

ENGINE_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock pyproject.toml
export PATH := $(CURDIR)/$(BIN):$(CURDIR)/$(TOOLS):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup build check lint types layers test test-unit test-rust test-integration demo bench gen docs lock clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMPS)/system $(STAMPS)/python $(STAMPS)/torch $(STAMPS)/engine $(VERSITYGW) ## Install everything needed: packages, environment, engine, test servers

build: $(STAMPS)/engine ## Build the engine (release) into the environment

# --- setup ---------------------------------------------------------------------------------------------------------

$(STAMPS)/system: tools/setup_system.sh tools/debian-packages.txt
	@mkdir -p $(STAMPS)
	@tools/setup_system.sh
	@touch $@

$(STAMPS)/venv: | $(STAMPS)/system
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "setup: Python 3.11 or newer is needed (make PYTHON=...)" >&2; exit 1; }
	@echo "setup: creating $(VENV)" >&2
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(STAMPS)/python: $(STAMPS)/venv requirements-demo.lock
	@echo "setup: installing the locked Python packages" >&2
	@$(BIN)/python -m pip install --quiet --require-hashes --no-deps --only-binary :all: -r requirements-demo.lock
	@touch $@

$(STAMPS)/torch: $(STAMPS)/venv $(STAMPS)/system tools/setup_torch.py
	@$(BIN)/python tools/setup_torch.py
	@touch $@

$(STAMPS)/engine: $(STAMPS)/python $(ENGINE_SOURCES)
	@command -v cargo >/dev/null || { echo "setup: Rust (cargo 1.91 or newer) is needed to build the engine" >&2; exit 1; }
	@echo "setup: building the engine (release; a few minutes the first time)" >&2
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . 2> $(CACHE)/engine.log || { cat $(CACHE)/engine.log >&2; exit 1; }
	@touch $@

$(VERSITYGW): tools/install_versitygw.sh
	@tools/install_versitygw.sh
	@touch $@

# --- check ---------------------------------------------------------------------------------------------------------

check: lint types layers $(STAMPS)/engine ## Check style, types, layers and generated pages
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	$(BIN)/python tools/generate.py --check

lint: $(STAMPS)/python ## Check the style of the Python code
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .

types: $(STAMPS)/engine ## Check the types, and the stub of the native module against the module
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest headrace._native --mypy-config-file pyproject.toml --concise

layers: $(STAMPS)/python ## Check who imports whom, in Python and in Rust
	@$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python tools/rust_layers.py

# --- test ----------------------------------------------------------------------------------------------------------

test: test-rust test-python ## Run all tests

test-unit: $(STAMPS)/engine ## Run the Python unit tests
	$(BIN)/python -m pytest tests/unit

test-integration: setup ## Run the tests with real servers and mounts
	$(BIN)/python -m pytest tests/integration

test-rust: $(STAMPS)/python ## Run the Rust tests
	cargo test --workspace --locked --quiet

.PHONY: test-python
test-python: setup
	$(BIN)/python -m pytest

# --- show ----------------------------------------------------------------------------------------------------------

demo: setup ## Train on real images straight from a bucket, cold and warm, and compare
	$(BIN)/python examples/01-train-from-a-bucket/run.py

bench: setup ## Measure every promise beside the local file system and other tools
	$(BIN)/python -m benchmarks.run

gen: $(STAMPS)/engine ## Write the generated pages of docs/reference
	$(BIN)/python tools/generate.py

docs: gen ## Write the generated pages (the rest of docs/ is plain Markdown)

lock: $(STAMPS)/python ## Choose new versions of the Python packages
	tools/lock.sh $(BIN)/uv --upgrade

clean: ## Remove everything built here
	rm -rf $(VENV) $(CACHE) target build dist demo-report bench-report src/headrace/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
