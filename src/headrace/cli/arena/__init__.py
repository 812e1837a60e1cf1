"""The command `arena`, which is `headrace job` by another name: training jobs are submitted, followed and ended."""
