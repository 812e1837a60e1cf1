#!/bin/sh
# Makes the file system of a node and stays as its first process. For mount, UTS, network and process namespaces of
# their own:
#
#     node_root.sh STATE-FOLDER NODE-FOLDER NAME
#
# The node sees this machine's files, but what it writes goes to NODE-FOLDER/upper. Its mounts are shared among all
# that runs on the node, as pods with propagation need it, and never reach this machine.
set -eu
state=$1
node=$2
name=$3
root=$node/root

hostname "$name"
mkdir -p "$node/upper" "$node/work" "$root" "$node/kubelet" "$node/headrace" "$node/tmp"
chmod 1777 "$node/tmp"
mount -t overlay overlay -o "lowerdir=/,upperdir=$node/upper,workdir=$node/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t tmpfs tmpfs "$root/run"
mount --bind "$node/tmp" "$root/tmp"
mkdir -p "$root$state" "$root/var/lib/kubelet" "$root/var/lib/headrace"
# Not on the overlay: databases and images want a file system of their own kind.
mount --bind "$state" "$root$state"
mount --bind "$node/kubelet" "$root/var/lib/kubelet"
mount --bind "$node/headrace" "$root/var/lib/headrace"

mkdir -p "$root/.machine"
cd "$root"
pivot_root . .machine
umount -l /.machine
rmdir /.machine
mount --make-rshared /
# Everything that a node may route and answer for its pods.
echo 1 > /proc/sys/net/ipv4/ip_forward
touch /run/node-is-made

# As the first process it takes in whose parents have ended.
trap : TERM INT HUP
while :; do
    sleep 3600 &
    wait || :
done
