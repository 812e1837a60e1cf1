"""The experiment of the seeds on one machine: a training straight from storage, and through Headrace, cold and warm."""
