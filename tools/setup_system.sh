#!/bin/bash
# Installs the Debian packages of these lists of tools/ that are missing. Without the rights to, says which and goes on:
# the tests that need them then say so.
# Usage: tools/setup_system.sh LIST...
set -euo pipefail
cd "$(dirname "$0")"

missing=()
while read -r package _; do
    [[ -z "$package" || "$package" == \#* ]] && continue
    # Docker brings its own of these, which Debian's would drive out.
    [[ "$package" == containerd || "$package" == runc ]] && command -v "$package" >/dev/null && continue
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done < <(cat -- "$@")
[[ ${#missing[@]} -eq 0 ]] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "setup: not a Debian system; please install what these Debian packages hold: ${missing[*]}" >&2
    exit 0
fi
if [[ "$(id -u)" -ne 0 ]]; then
    echo "setup: these Debian packages are missing: ${missing[*]}" >&2
    echo "setup: as root: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 0
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Tests start servers of their own: nothing that is installed here shall run as a service now.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
    trap 'rm -f "$log" "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
# Another installation may be under way on this machine: wait for its lock instead of failing.
apt=(apt-get -o DPkg::Lock::Timeout=600 -qq -y)
install() { DEBIAN_FRONTEND=noninteractive "${apt[@]}" install --no-install-recommends "${missing[@]}" >"$log" 2>&1; }
echo "setup: installing Debian packages: ${missing[*]}" >&2
if ! install; then
    "${apt[@]}" update >/dev/null 2>&1 || true
    install || { cat "$log" >&2; echo "setup: apt-get could not install: ${missing[*]}" >&2; exit 1; }
fi
