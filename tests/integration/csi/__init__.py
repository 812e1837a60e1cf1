"""Tests of the CSI driver with real mounts."""
