#!/bin/bash
# Writes the lock files, each a part of the first: what a contributor, the demo, Headrace and its images for Kubernetes need.
# The last two stand alone: Horovod builds against an older TensorFlow than the rest, so it has an environment of its own.
# Usage: tools/lock.sh UV [--upgrade]
set -euo pipefail
uv=$1
shift
compile() {
    "$uv" pip compile --quiet --python-version 3.11 --python-platform x86_64-unknown-linux-gnu --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command 'make lock' "$@"
}
compile pyproject.toml --extra kubernetes --extra otlp --group dev --group demo --output-file requirements-dev.lock "$@"
compile pyproject.toml --group demo --constraint requirements-dev.lock --output-file requirements-demo.lock "$@"
compile pyproject.toml --constraint requirements-dev.lock --output-file requirements.lock "$@"
compile pyproject.toml --extra kubernetes --extra otlp --constraint requirements-dev.lock --output-file requirements-kubernetes.lock "$@"
# The newest versions of data libraries stand apart, too: they want newer ones of what the tests of the loaders need.
compile pyproject.toml --group libraries --output-file requirements-libraries.lock "$@"
# Horovod 0.28.1, the last release, builds with TensorFlow up to 2.13, setuptools before 66 and wheel before 0.46.
printf '%s\n' horovod==0.28.1 tensorflow-cpu==2.13.1 setuptools==65.5.0 'wheel<0.46' 'pillow>=11' |
    compile - --output-file requirements-horovod.lock "$@"
# S3 servers of the tests, each of which has an environment of its own.
printf '%s\n' 'moto[s3]==5.2.5' 'flask>=3' 'flask-cors>=5' | compile - --output-file requirements-moto.lock "$@"
printf '%s\n' 'swift==2.38.3' | compile - --output-file requirements-swift.lock "$@"
# What makes a release has one, too.
compile pyproject.toml --group release --constraint requirements-dev.lock --output-file requirements-release.lock "$@"
# The builder of the site, which has an environment of its own, too.
compile --group site --output-file requirements-site.lock "$@"
