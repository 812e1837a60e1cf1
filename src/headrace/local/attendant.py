"""The former place of `headrace.local.operations.job_runner`, for supervisors that began before it moved."""

from __future__ import annotations

import sys

from headrace.local.operations.job_runner import main

if __name__ == "__main__":
    sys.exit(main())
