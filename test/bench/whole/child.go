// Package whole compares schedulers on whole clusters: a real etcd and kube-apiserver in one process, a process that
// imitates the kubelets and agents of all nodes, and each scheduler in its usual process. Afterwards the kubelet's own
// managers check every placement.
//
// Invariant: every contender gets the same cluster, byte for byte: the data of etcd are copied for each round.
// Everything but the scheduler runs the same way for all of them. The package counts and measures; it does not judge
// times.
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

// roleEnv has the role of a child.
const roleEnv = "TENON_WHOLE_ROLE"

const (
	rolePlane = "control plane"
	roleNodes = "nodes"
)

// answersFD is the descriptor on which a child answers.
const answersFD = 3

// MaybeChild returns at once in a program that a person started. In a child that this package made of the same binary
// it does the child's work and does not return.
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
