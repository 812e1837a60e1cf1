#!/bin/sh
# Runs nfs-ganesha and the port mapper that it cannot be without. For a network and a mount namespace of its own:
#
#     ganesha.sh CONFIGURATION STATE-FOLDER
#
# /run becomes empty, so that neither finds sockets of this machine's own services. All ends with the server.
set -eu
configuration=$1
state=$2

ip link set lo up
mount -t tmpfs tmpfs /run
mkdir -p /run/ganesha /run/rpcbind
rpcbind -f >"$state/rpcbind.log" 2>&1 &
while [ ! -S /run/rpcbind.sock ]; do
    kill -0 $! || { cat "$state/rpcbind.log" >&2; exit 1; }
    sleep 0.02
done
exec ganesha.nfsd -F -f "$configuration" -L "$state/ganesha.log" -p "$state/ganesha.pid" -N EVENT
