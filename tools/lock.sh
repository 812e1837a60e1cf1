#!/bin/bash
# Writes the three lock files, each a part of the next: what Headrace needs, what a contributor needs, what the demo needs.
# Usage: tools/lock.sh UV [--upgrade]
set -euo pipefail
uv=$1
shift
compile() {
    "$uv" pip compile --quiet --python-version 3.11 --python-platform x86_64-unknown-linux-gnu --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command 'make lock' pyproject.toml "$@"
}
compile --group dev --group demo --output-file requirements-demo.lock "$@"
compile --group dev --constraint requirements-demo.lock --output-file requirements-dev.lock "$@"
compile --constraint requirements-demo.lock --output-file requirements.lock "$@"
