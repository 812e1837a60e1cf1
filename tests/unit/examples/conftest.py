from __future__ import annotations

import sys
from pathlib import Path

# The example's own modules, as its programs find them.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples" / "02-resnet50-horovod"))
