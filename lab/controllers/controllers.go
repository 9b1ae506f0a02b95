// Package controllers runs a real kube-controller-manager for a lab cluster, so that Deployments, StatefulSets,
// DaemonSets and Jobs get pods, pods get the claims of their templates, and objects of a deleted owner or namespace are
// deleted.
//
// It is a child process of the same binary, because the manager's logs, feature gates and metrics are global to a
// process. Invariant: the child ends with Stop of its [program.Running], and with the program that started it. The
// package does not run controllers that act on nodes or clouds: kubelets of a busy computer report late, and these
// controllers would then evict their pods.
//
// A program that starts one calls [MaybeChild] first of all, in main or TestMain.
package controllers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/tenon-numa/tenon/lab/program"
	"github.com/tenon-numa/tenon/lab/releases"
)

// childEnv marks the child; its value does not matter.
const childEnv = "TENON_LAB_CONTROLLERS"

// names are the controllers that run: the controllers of workloads, the controllers that clean up, and the one that
// fills the roles view, edit and admin.
var names = []string{"clusterrole-aggregation-controller", "cronjob-controller", "daemonset-controller",
	"deployment-controller", "disruption-controller", "garbage-collector-controller", "job-controller",
	"namespace-controller", "pod-garbage-collector-controller", "replicaset-controller", "resourceclaim-controller",
	"serviceaccount-controller", "statefulset-controller", "ttl-after-finished-controller"}

// MaybeChild returns at once in a program that a person started. In the child that [Start] started it runs the
// manager with the arguments of the process, and does not return.
func MaybeChild() {
	if os.Getenv(childEnv) == "" {
		return
	}
	releases.Set()
	if err := app.NewControllerManagerCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// ForGroups returns arguments of a manager for clusters with gangs, from Kubernetes 1.37 on: it removes deleted
// PodGroups that have no pods.
func ForGroups() []string {
	return []string{"--feature-gates=GenericWorkload=true", "--controllers=podgroup-protection-controller"}
}

// Start starts a manager with the rights of a kubeconfig file, and more arguments. Its log is controllers.log in dir.
func Start(dir, kubeconfig string, more ...string) (*program.Running, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start controllers: find this program: %w", err)
	}
	args := []string{"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--min-resync-period=12h", "--kube-api-qps=1000", "--kube-api-burst=1000",
		"--controllers=" + strings.Join(names, ",")}
	cmd := exec.Command(exe, append(args, more...)...)
	cmd.Env = append(os.Environ(), childEnv+"=1", "GOGC=50")
	return program.Start("the controller manager", filepath.Join(dir, "controllers.log"), cmd)
}
