// Package whole has schedulers contend for whole clusters: a real etcd and kube-apiserver in a process of
// their own, a process that stands for the kubelets and agents of all nodes, and each scheduler as the process
// that it is in a cluster. Afterwards the kubelet's own managers judge every placement.
//
// Invariant: every contender finds the same cluster, byte for byte: the data of etcd are copied for each
// round. Whatever is not the scheduler runs the same way for all of them. The package refuses to judge times:
// it counts and measures, and whoever reads decides.
//
// A program that uses it calls [MaybeChild] first of all, in main or TestMain: the children are the same binary.
package whole

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// roleEnv says what a child is.
const roleEnv = "TENON_WHOLE_ROLE"

const (
	rolePlane = "control plane"
	roleNodes = "nodes"
)

// answersFD is the descriptor on which a child answers.
const answersFD = 3

// MaybeChild does nothing in a program that a person started. In a child that this package made of the same
// binary it does the child's work and does not return.
func MaybeChild() {
	role := os.Getenv(roleEnv)
	if role == "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	answers := json.NewEncoder(os.NewFile(answersFD, "answers"))
	klog.SetLogger(logr.Discard())
	err := fmt.Errorf("unknown role %q", role)
	switch role {
	case rolePlane:
		err = runPlane(ctx, os.Stdin, answers)
	case roleNodes:
		err = runNodes(ctx, os.Stdin, answers)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
