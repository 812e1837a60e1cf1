"""The former place of `headrace.local.jobs.instance_process`, for supervisors that began before it moved."""

from __future__ import annotations

import sys

from headrace.local.jobs.instance_process import main

if __name__ == "__main__":
    sys.exit(main())
