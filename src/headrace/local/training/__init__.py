"""The former place of `headrace.local.jobs`: only what processes that began before it moved still start."""
