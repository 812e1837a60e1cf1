//go:build tools

// Names the programs of the test cluster, so that go.mod and go.sum pin all that they are built from.
// tools/install_kubernetes.sh builds them. Kubernetes publishes its parts as modules of their own that its go.mod
// replaces by folders; here they are replaced by their published versions.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
