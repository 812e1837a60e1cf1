//go:build tools

// Names the training operator of the test cluster, so that go.mod and go.sum pin all that it is built from.
// tools/install_kubeflow.sh builds it.
package tools

import (
	_ "github.com/kubeflow/training-operator/cmd/training-operator.v1"
)
