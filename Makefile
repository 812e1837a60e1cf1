# Everything that a contributor or CI runs. `make` alone lists it. All that is built stays below this folder.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# The distribution's own where it is new enough: it was built with optimizations that a Python from its sources lacks
# by default, and with it every program of ours, most of all its start, takes a fifth less.
PYTHON ?= $(shell /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo /usr/bin/python3 || echo python3)
VENV := .venv
BIN := $(VENV)/bin
CACHE := .cache
STAMPS := $(CACHE)/stamps
TOOLS := $(CACHE)/bin

# The S3 server of the tests, the demo and the benchmark.
VERSITYGW := $(TOOLS)/versitygw

ENGINE_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock pyproject.toml
TESTS := $(shell find tests -name '*.py')
export PATH := $(CURDIR)/$(BIN):$(CURDIR)/$(TOOLS):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The tests start programs of the package by the thousand: each would compile it anew where somebody has set this.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-tests build check lint types layers links test test-unit test-rust test-integration test-kubernetes
.PHONY: test-libraries test-servers soak
.PHONY: cluster cluster-down demo demo-bucket horovod bench images release test-release gen docs recording site lock clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMPS)/system $(STAMPS)/python $(STAMPS)/torch $(STAMPS)/engine $(VERSITYGW) ## Install everything needed: packages, environment, engine, test servers
	@:

.PHONY: setup-demo
setup-demo: $(STAMPS)/engine $(STAMPS)/horovod $(VERSITYGW)
	@:

# Two at a time: one core would wait for the other's downloads and its linker.
setup-tests: ## Install what `make test` needs as well: Kubernetes, helm, csi-sanity, and Horovod where it can be built
	@tools/announce.sh test
	@$(MAKE) --no-print-directory --jobs=2 setup kubernetes helm csi-sanity horovod-where-possible test-images s3-servers $(STAMPS)/tests

build: $(STAMPS)/released ## Build the engine as a release has it into the environment: slower to build, a little faster

# --- setup ---------------------------------------------------------------------------------------------------------

# What the demo and the build need stands apart: nobody who wants to see the demo waits for what tests need.
$(STAMPS)/system-demo: tools/setup_system.sh tools/debian-packages-demo.txt
	@mkdir -p $(STAMPS)
	@tools/setup_system.sh debian-packages-demo.txt
	@touch $@

$(STAMPS)/system: $(STAMPS)/system-demo tools/setup_system.sh tools/debian-packages.txt
	@tools/setup_system.sh debian-packages-demo.txt debian-packages.txt
	@touch $@

$(STAMPS)/venv: | $(STAMPS)/system-demo
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "setup: Python 3.11 or newer is needed (make PYTHON=...)" >&2; exit 1; }
	@echo "setup: creating $(VENV)" >&2
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

INSTALL := $(BIN)/python -m pip install --quiet --require-hashes --no-deps --only-binary :all: -r

$(STAMPS)/python-demo: $(STAMPS)/venv requirements-demo.lock
	@echo "setup: installing the locked Python packages" >&2
	@$(INSTALL) requirements-demo.lock
	@touch $@

$(STAMPS)/python: $(STAMPS)/python-demo requirements-dev.lock
	@echo "setup: installing the locked Python packages of tests and tools" >&2
	@$(INSTALL) requirements-dev.lock
	@touch $@

$(STAMPS)/torch: $(STAMPS)/python $(STAMPS)/system tools/setup_torch.py
	@$(BIN)/python tools/setup_torch.py
	@touch $@

# As it is tried and tested; what is released and measured is built over it.
$(STAMPS)/engine: $(STAMPS)/python-demo tools/build_engine.sh $(ENGINE_SOURCES)
	@tools/build_engine.sh tried
	@rm -f $(STAMPS)/released
	@touch $@

$(STAMPS)/released: $(STAMPS)/python-demo tools/build_engine.sh $(ENGINE_SOURCES)
	@tools/build_engine.sh released
	@touch $(STAMPS)/engine $@

# Once, beside the downloads: each runner of `make test` would compile all tests for itself. What is wrong with a test
# is not said here.
$(STAMPS)/tests: $(STAMPS)/engine $(STAMPS)/python $(STAMPS)/torch $(TESTS)
	@$(BIN)/python -m pytest --quiet --collect-only >/dev/null 2>&1 || :
	@touch $@

# TensorFlow for Horovod is another one than the environment's, and may have another Python.
$(STAMPS)/horovod: $(STAMPS)/system-demo tools/setup_horovod.sh requirements-horovod.lock
	@tools/setup_horovod.sh $(PYTHON)
	@touch $@

# Without it three tests are skipped and say so: TensorFlow 2.13 is for Python 3.11 alone here.
.PHONY: horovod-where-possible
horovod-where-possible: $(STAMPS)/system-demo
	@if fault=$$(tools/setup_horovod.sh --check $(PYTHON) 2>&1); then $(MAKE) --no-print-directory $(STAMPS)/horovod; \
	else echo "setup: the tests of Horovod will be skipped: $$fault" >&2; fi

$(VERSITYGW): tools/install_versitygw.sh
	@tools/install_versitygw.sh
	@touch $@

# --- check ---------------------------------------------------------------------------------------------------------

check: lint types layers links $(STAMPS)/engine ## Check style, types, layers, links and generated pages
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	$(BIN)/python tools/generate.py --check

lint: $(STAMPS)/python ## Check the style of the Python code, and the English of texts
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/python tools/english.py

types: $(STAMPS)/engine $(STAMPS)/python ## Check the types, and the stub of the native module against the module
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest headrace._native --mypy-config-file pyproject.toml --concise

layers: $(STAMPS)/python ## Check who imports whom, in Python and in Rust
	@$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python tools/rust_layers.py

links: $(STAMPS)/python ## Check that every link of the pages leads to a file and a heading that are there
	$(BIN)/python tools/links.py

# --- test ----------------------------------------------------------------------------------------------------------

test: setup-tests test-rust test-python ## Show every capability once, with real servers, mounts and kills: what CI runs

test-unit: $(STAMPS)/engine $(STAMPS)/python ## Run the Python unit tests
	$(BIN)/python -m pytest tests/unit

test-integration: setup csi-sanity s3-servers ## Run the tests with real servers and mounts
	$(BIN)/python -m pytest tests/integration

test-kubernetes: setup kubernetes helm kubeflow ## Run the tests on a real Kubernetes: one of their own, or that of HEADRACE_KUBECONFIG
	$(BIN)/python -m pytest tests/kubernetes

test-libraries: setup $(STAMPS)/libraries ## Run the samples of docs/libraries.md and docs/writing-beside-data.md with the libraries themselves
	$(CACHE)/libraries/bin/python -m pytest tests/libraries

# Of its own: new libraries want a newer NumPy than the environment's PyTorch. The engine is that of the checkout.
$(STAMPS)/libraries: $(STAMPS)/engine requirements-libraries.lock tools/setup_libraries.sh
	@tools/setup_libraries.sh $(PYTHON) $(VENV)
	@touch $@

test-servers: setup ## Run the contract of an S3 origin against every server of docs/servers.md that installs by itself
	@tools/install_s3_servers.sh all
	HEADRACE_TEST_SERVERS=all $(BIN)/python -m pytest tests/integration/test_s3_servers.py

# Of the wheel in dist, whatever commit it is of; it says that itself.
test-release: setup ## Install the wheel of dist on every Python that is here, without Rust and a compiler, and use it
	$(BIN)/python -m pytest tests/release

SOAK_MINUTES ?= 30
SOAK_TIMES ?= 1

soak: setup kubernetes helm ## Repeat and randomise: kills, walks, scale, for SOAK_MINUTES=30; says its seed, and takes one as SOAK_SEED
	SOAK_MINUTES=$(SOAK_MINUTES) SOAK_TIMES=$(SOAK_TIMES) SOAK_SEED=$(SOAK_SEED) $(BIN)/python -m pytest tests/soak
	SOAK_MINUTES=$(SOAK_MINUTES) $(BIN)/python -m pytest tests/unit -m hypothesis $(if $(SOAK_SEED),--hypothesis-seed=$(SOAK_SEED))
	$(if $(SOAK_SEED),PROPTEST_RNG_SEED=$(SOAK_SEED) )cargo test --workspace --tests --locked --quiet

# Property tests try the same examples each time, as those of Python do; `make soak` tries others.
test-rust: $(STAMPS)/python ## Run the Rust tests
	time PROPTEST_RNG_SEED=1 cargo test --workspace --tests --locked --quiet

TESTS_AT_ONCE ?= 5

# Those that share nothing run beside each other (tests/conftest.py); they wait more than they compute.
.PHONY: test-python
test-python: setup-tests
	time $(BIN)/python -m pytest --numprocesses=$(TESTS_AT_ONCE) -m "not kubernetes or short"

# --- a real Kubernetes on this machine -----------------------------------------------------------------------------

NODES ?= 2

.PHONY: helm csi-sanity
helm:
	@tools/install_helm.sh >/dev/null

csi-sanity: $(STAMPS)/system
	@tools/install_csi_sanity.sh >/dev/null

.PHONY: s3-servers
s3-servers: $(STAMPS)/system
	@tools/install_s3_servers.sh quick >/dev/null

# Built only where a cluster can run: as root.
.PHONY: kubernetes kubeflow
kubernetes: $(STAMPS)/system
	@[[ "$$(id -u)" -ne 0 ]] || tools/install_kubernetes.sh

kubeflow: $(STAMPS)/system
	@[[ "$$(id -u)" -ne 0 ]] || for operator in mpi-operator training-operator; do tools/install_kubeflow.sh $$operator >/dev/null; done

# Of the cluster of the tests, which would wait for them.
.PHONY: test-images
test-images: $(STAMPS)/engine $(STAMPS)/python kubernetes
	@[[ "$$(id -u)" -ne 0 ]] || $(BIN)/python -m headrace.testing.kubernetes.build_images >/dev/null

cluster: setup kubernetes helm ## Start a Kubernetes on this machine (NODES=2) and print how to install Headrace there
	@$(BIN)/python -m headrace.testing.kubernetes up --nodes $(NODES)

cluster-down: $(STAMPS)/engine $(STAMPS)/python ## Take that Kubernetes away, with all that it left
	@$(BIN)/python -m headrace.testing.kubernetes down

# --- show ----------------------------------------------------------------------------------------------------------

# Side by side: a core would wait for downloads and linkers, and the engine, which takes longest, for all others.
demo: ## Train ResNet-50 on 4x8 accelerators straight from storage, cold and warm, and compare
	@tools/announce.sh demo
	@$(MAKE) --no-print-directory --jobs=3 setup-demo
	$(BIN)/python examples/02-resnet50-horovod/run.py

demo-bucket: setup ## Train on real images straight from a bucket on one machine, cold and warm, and compare
	$(BIN)/python examples/01-train-from-a-bucket/run.py

horovod: $(STAMPS)/horovod ## Build Horovod for the training example into .cache/horovod (once; two minutes)
	@:

bench: build setup horovod ## Measure every promise beside the local file system and other tools, and a longer demo
	$(BIN)/python -m benchmarks.run
	$(BIN)/python examples/02-resnet50-horovod/run.py --long --shape all --report bench-report/training

images: build setup ## Build the images of the test cluster into .cache/images (as root; no registry needed)
	$(BIN)/python -m headrace.testing.kubernetes.build_images

gen: $(STAMPS)/engine $(STAMPS)/python ## Write the generated pages: docs/reference, manual pages, CRDs
	$(BIN)/python tools/generate.py

# Of its own: it serves a bucket and kills a mount, which takes half a minute, and says other times on each machine.
recording: setup ## Run the session of the README against a real S3 server, and draw docs/images/session.svg if it says something new
	$(BIN)/python -m tools.record_session

docs: gen ## Write the generated pages (the rest of docs/ is plain Markdown)

# Of its own: nothing of what tests and tools of a checkout need gets into a release by chance.
RELEASE := $(CACHE)/release

$(STAMPS)/release: requirements-release.lock | $(STAMPS)/venv
	@$(PYTHON) -m venv --clear $(RELEASE)/tools
	@$(RELEASE)/tools/bin/python -m pip install --quiet --require-hashes --no-deps --only-binary :all: -r requirements-release.lock
	@touch $@

# The package of the checkout is not installed there, and needs not be: of it only Python is used.
release: $(STAMPS)/release $(STAMPS)/system helm ## Put wheel, sources, images, chart, bills of materials and checksums of the commit into dist (as root; REGISTRY=… SIGN=KEY)
	@PATH="$(CURDIR)/$(RELEASE)/tools/bin:$$PATH" PYTHONPATH=src:. $(RELEASE)/tools/bin/python -m tools.release \
		$(if $(REGISTRY),--registry "$(REGISTRY)") $(if $(SIGN),--sign "$(SIGN)")

# Of its own: nothing else needs its packages, and `make setup` does not wait for them.
$(STAMPS)/site: $(STAMPS)/venv requirements-site.lock
	@$(PYTHON) -m venv --clear $(CACHE)/site-tools
	@$(CACHE)/site-tools/bin/python -m pip install --quiet --require-hashes --no-deps --only-binary :all: -r requirements-site.lock
	@touch $@

site: $(STAMPS)/python $(STAMPS)/site ## Build all pages as a site with search, in .cache/site/html
	$(BIN)/python -m tools.build_site $(CURDIR)/$(CACHE)/site-tools/bin/zensical

lock: $(STAMPS)/python ## Choose new versions of the Python packages
	tools/lock.sh $(BIN)/uv --upgrade

clean: ## Remove everything built here
	rm -rf $(VENV) $(CACHE) target build dist demo-report bench-report src/headrace/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
