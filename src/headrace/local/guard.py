"""The former place of `headrace.local.lifecycle.guard`, for supervisors that began before it moved."""

from __future__ import annotations

import sys

from headrace.local.lifecycle.guard import main

if __name__ == "__main__":
    sys.exit(main())
