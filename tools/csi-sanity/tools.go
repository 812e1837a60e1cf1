//go:build tools

// Names csi-sanity, which checks the CSI driver, so that go.mod and go.sum pin all that it is built from.
// tools/install_csi_sanity.sh builds it.
package tools

import (
	_ "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity"
)
