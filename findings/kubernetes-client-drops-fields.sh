#!/usr/bin/env bash
# Kubernetes' client for Python 37.0.2: an object that is read, changed and put back (`read_…`, `replace_…`) loses each field that the
# client does not know, since answers become objects of its own model. One would expect such fields to be kept or refused. With an
# API server newer than the client, or with the fields of a CRD's embedded pod, that undoes what others have set; a `patch`
# does not. Shown without a server: what an answer becomes when it is sent back.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'kubernetes==37.0.2'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import json

from kubernetes import client

container = {"name": "main", "image": "train", "settingOfNextYear": {"mode": "fast"}}
pod = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "job"},
    "spec": {"containers": [container], "policyOfNextYear": "strict"},
}

api = client.ApiClient()
sent_back = api.sanitize_for_serialization(api.deserialize(json.dumps(pod), "V1Pod", "application/json"))
print(f"read: {json.dumps(pod)}; sent back: {json.dumps(sent_back)}")
assert sent_back["spec"] == {"containers": [{"name": "main", "image": "train"}]}
PYTHON
