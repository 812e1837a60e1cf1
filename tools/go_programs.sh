# What the scripts share that build programs from Go modules into a cache folder. It is sourced by them, and not run.
# A failure is told in the name of the script, with the end of the build's log.

run_step=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/run_step.py

# cache_folder: where programs are kept, outside of the tree, for all checkouts.
cache_folder() { echo "${XDG_CACHE_HOME:-$HOME/.cache}/headrace"; }

# required FILE MODULE: the version that a go.mod demands of a module.
required() { awk -v module="$2" '$1 == "require" && $2 == module { print $3 }' "$1"; }

# need_go VERSION: ends the script where no Go toolchain is found.
need_go() {
    export PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null && return
    echo "$(basename "$0" .sh): no Go toolchain on PATH; install Go $1 or newer" >&2
    exit 1
}

# build_in FOLDER: makes a folder to build in ($building), which goes with the script. The same script waits for another
# run of it in FOLDER, and finds its work.
build_in() {
    mkdir -p "$1"
    exec 9>"$1/.$(basename "$0" .sh).lock"
    flock 9
    building=$(mktemp -d "$1/.building-XXXXXX")
    trap 'chmod -R u+w "$building"; rm -rf "$building"' EXIT
}

# logged SECONDS WHAT COMMAND...: runs a command quietly, without cgo, and says what it does, and in between how far it is,
# by the packages that go -v names; SECONDS is about how long it takes on two cores. Ends the script when it fails.
logged() {
    local takes_s=$1 what=$2 log=$building/log
    shift 2
    CGO_ENABLED=0 nice "$run_step" --say "$what" --log "$log" --count '^[a-z][^ \n]*$' \
        --takes "$takes_s" -- "$@" && return
    mv "$log" "$building.log"
    echo "$(basename "$0" .sh): the whole log is now $building.log" >&2
    exit 1
}
