#!/usr/bin/env bash
# Kubernetes' apimachinery 0.34.4: a size with a fraction that is no whole number of bytes, `0.7Gi`, comes back as thousandths of bytes,
# `751619276800m`, from whatever keeps it as a quantity: requests and limits of pods, claims, and objects that a Go program has read and
# written. `1.5Gi` comes back as `1536Mi`. One would expect bytes, or what was written. Tools that read sizes by their
# unit take it for a share of a processor, or refuse it; a cache's quota is best written as a whole number of some unit.
# Needs Go. Exits 0 while this is so.
set -euo pipefail
export PATH=$PATH:/usr/local/go/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >main.go <<'GO'
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	for _, written := range os.Args[1:] {
		quantity := resource.MustParse(written)
		kept, err := json.Marshal(&quantity)
		if err != nil {
			panic(err)
		}
		fmt.Println(written, string(kept))
	}
}
GO
go mod init size 2>/dev/null
go get k8s.io/apimachinery/pkg/api/resource@v0.34.4 2>/dev/null
kept=$(go run . 1.5Gi 0.7Gi)
echo "written and kept: $(paste -sd, <<<"$kept")"
[[ $kept == $'1.5Gi "1536Mi"\n0.7Gi "751619276800m"' ]]
