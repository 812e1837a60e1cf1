#!/usr/bin/env bash
# WebDataset 1.0.2: the name of a sample ends at the first dot, so that four images `clip_1.0.jpg`, `clip_1.25.jpg`, … are one
# sample with the fields `0.jpg`, `25.jpg`, … and none called `jpg`. TarWriter writes them from four samples without a word, and
# reads them back as one. Names with times, versions or learning rates in them lose samples so; `decode` and `to_tuple("jpg")` tell
# of a missing field at best.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'webdataset==1.0.2'
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import webdataset

names = [f"video/clip_{second}" for second in ("1.0", "1.25", "1.5", "1.75")]
with webdataset.TarWriter("shard.tar") as archive:
    for number, name in enumerate(names):
        archive.write({"__key__": name, "jpg": bytes([number])})
samples = list(webdataset.WebDataset("shard.tar", shardshuffle=False))
keys = [sample["__key__"] for sample in samples]
fields = sorted(field for sample in samples for field in sample if not field.startswith("__"))
print(f"written: {names}; read: {keys} with {fields}")
assert keys == ["video/clip_1"]
assert fields == ["0.jpg", "25.jpg", "5.jpg", "75.jpg"]
PYTHON
