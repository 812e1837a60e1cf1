"""A Kubernetes on this machine: `python -m headrace.testing.kubernetes up|down|status [--folder F] [--nodes N]`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from headrace.testing.kubernetes.build_images import build_images
from headrace.testing.kubernetes.cluster import Cluster, take_down
from headrace.testing.kubernetes.next_commands import explained
from headrace.testing.kubernetes.programs import lacking


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m headrace.testing.kubernetes", description=__doc__)
    parser.add_argument("verb", choices=("up", "down", "status", "load"))
    parser.add_argument(
        "--folder", type=Path, default=default_folder(), help="holds all state of the cluster"
    )
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument(
        "--image",
        type=Path,
        action="append",
        default=[],
        help="an archive to load, for up and load; by default the images of this checkout, which are built",
    )
    options = parser.parse_args()
    if reason := lacking():
        print(f"no Kubernetes can run here: {reason}", file=sys.stderr)
        return 1
    if options.verb == "down":
        take_down(options.folder)
        return 0
    if not options.image and options.verb in ("up", "load"):
        print("building the images of this checkout, as far as they have changed", file=sys.stderr)
        options.image = list(build_images())
    if options.verb == "up":
        print(f"starting Kubernetes with {options.nodes} nodes in {options.folder}", file=sys.stderr)
    cluster = (
        Cluster.up(options.folder, nodes=options.nodes, images=options.image)
        if options.verb == "up"
        else Cluster.open(options.folder)
    )
    if cluster is None:
        print(f"no cluster in {options.folder}; `up` makes one", file=sys.stderr)
        return 1
    for image in options.image:  # which costs nothing where they are there from the beginning
        cluster.load_image(image)
    if options.verb == "status":
        print(cluster.kubectl("get", "nodes", "-o", "wide"), end="", file=sys.stderr)
    print(explained(cluster))
    return 0


def default_folder() -> Path:
    """Below the user's state, outside of the tree."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "headrace" / "kubernetes"


if __name__ == "__main__":
    sys.exit(main())
