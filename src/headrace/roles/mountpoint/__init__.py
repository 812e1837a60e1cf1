"""Mountpoints as the kernel knows them: listed, checked, taken off. Knows no process of ours."""
