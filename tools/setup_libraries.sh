#!/bin/bash
# Makes the environment of `make test-libraries` in .cache/libraries: the newest data libraries, and Headrace as it is
# installed in the environment of the checkout, so that fsspec finds its protocol.
# Usage: tools/setup_libraries.sh PYTHON VENV
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
folder=$checkout/.cache/libraries
"$1" -m venv --clear "$folder"
"$folder/bin/python" -m pip --quiet --disable-pip-version-check install --require-hashes --no-deps --only-binary :all: \
    --requirement "$checkout/requirements-libraries.lock"
packages() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'; }
from=$(packages "$2")
cp -r "$from"/headrace*.pth "$from"/headrace-*.dist-info "$(packages "$folder")/"
