#!/usr/bin/env bash
# datasets 5.2.0: `load_dataset("webdataset")` takes the fields of the first five samples of an archive for those of all. A field
# that begins with the sixth (a caption that not every image has) is left out of all samples, without an error or a
# warning; one that ends there is None. WebDataset itself gives each sample what it has. So how a shard was shuffled decides
# whether the model ever sees a caption.
# Needs Python with venv. Exits 0 while this is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check 'datasets==5.2.0' 'webdataset==1.0.2' 'pyarrow==26.0.1'
cd "$work"
HF_HOME=$work/hf "$work/venv/bin/python" - <<'PYTHON'
import datasets
import webdataset

datasets.disable_progress_bars()


def fields_of(name: str, has_caption: range) -> tuple[int, int]:
    """The number of samples with a caption: as WebDataset reads the archive, and as datasets does."""
    with webdataset.TarWriter(f"{name}.tar") as archive:
        for number in range(10):
            sample = {"__key__": f"{number:03}", "cls": str(number)}
            archive.write(sample | ({"txt": "a caption"} if number in has_caption else {}))
    plain = list(webdataset.WebDataset(f"{name}.tar", shardshuffle=False))
    loaded = datasets.load_dataset("webdataset", data_files=f"{name}.tar", split="train")
    assert len(plain) == len(loaded) == 10
    return sum("txt" in each for each in plain), sum(each.get("txt") is not None for each in loaded)


early = fields_of("early", range(5))
late = fields_of("late", range(5, 10))
print(f"captions of the first five samples: WebDataset and datasets see {early}, of the last five: {late}")
assert early == (5, 5)
assert late == (5, 0)
PYTHON
