"""The former place of `headrace.local.jobs.rank_launcher`, for jobs that began before it moved."""

from __future__ import annotations

import sys

from headrace.local.jobs.rank_launcher import main

if __name__ == "__main__":
    sys.exit(main())
