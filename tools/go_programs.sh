# What the scripts share that build programs from Go modules into a cache folder. It is sourced by them, and not run.
# A failure is told in the name of the script, with the end of the build's log.

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

# build_in FOLDER: makes a folder to build in ($building), which goes with the script. One builder at a time in FOLDER:
# whoever waited finds the other's work.
build_in() {
    mkdir -p "$1"
    exec 9>"$1/.lock"
    flock 9
    building=$(mktemp -d "$1/.building-XXXXXX")
    trap 'chmod -R u+w "$building"; rm -rf "$building"' EXIT
}

# logged WHAT COMMAND...: runs a command quietly, without cgo; ends the script when it fails, and says what did.
logged() {
    local what=$1 log=$building/log
    shift
    CGO_ENABLED=0 nice "$@" >"$log" 2>&1 && return
    tail -20 "$log" >&2
    mv "$log" "$building.log"
    echo "$(basename "$0" .sh): $what failed; the whole log is in $building.log" >&2
    exit 1
}
