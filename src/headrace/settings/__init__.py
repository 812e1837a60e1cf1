"""The settings of Headrace as typed values: sizes, cache levels, limits, origins, mounts.

The models of `engine` mirror `crates/engine/src/config.rs` field by field. `environment` is the only reader of
environment variables, `files` the only reader of the configuration file. Nothing here knows the engine.
"""
