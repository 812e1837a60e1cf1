"""The messages and services of the CSI specification, written by tools/generate_csi.py from csi.proto beside it."""
