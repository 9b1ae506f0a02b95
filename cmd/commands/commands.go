// Package commands connects the commands of face/cli to the cluster of a kubeconfig. The kubectl plugin and the lab's
// demonstration run their commands through this package. It only connects other packages, and decides nothing about
// clusters.
package commands

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/node/sysfs"
	"github.com/tenon-numa/tenon/ops/doctor"
	"github.com/tenon-numa/tenon/ops/rollout"
)

// Setup returns the functions that the commands call. version is the version of the program.
func Setup(version string) cli.Setup {
	return cli.Setup{Version: version, Connect: connect, Machine: readMachine, Catalogue: catalogue,
		Catalogued: machines.List(), Stages: stages(), Affinity: affinity, Doctor: examine, Bundle: writeBundle(version),
		KubeletPlan: planKubelets, ApplyKubelets: applyKubelets, Move: move, Console: serveConsole(version)}
}

// readMachine returns the machine in a machine file or in a snapshot of a host, and the warnings about it.
func readMachine(data []byte) (*topo.Machine, []string, error) {
	found, err := sysfs.Read(data)
	if err != nil {
		return nil, nil, err
	}
	var warnings []string
	for _, w := range found.Warnings {
		warnings = append(warnings, w.String())
	}
	return found.Machine, warnings, nil
}

// connect returns the cluster of a kubeconfig, and the namespace that the user selected. The cluster reads its data
// at most once.
func connect(k cli.Kubeconfig) (cli.Cluster, string, error) {
	r, err := reach(k)
	if err != nil {
		return nil, "", err
	}
	reader, err := r.reader()
	if err != nil {
		return nil, "", err
	}
	return view.NewOnce(reader), r.namespace, nil
}

// examine returns the findings of the doctor about the cluster of a kubeconfig. It does not look a second time at a
// bundle, because a bundle does not change.
func examine(ctx context.Context, k cli.Kubeconfig, o cli.DoctorOptions) (document.Diagnosis, error) {
	r, err := reach(k)
	if err != nil {
		return document.Diagnosis{}, err
	}
	reader, err := r.reader()
	if err != nil {
		return document.Diagnosis{}, err
	}
	s, err := doctor.Read(ctx, reader, r.cfg, r.at)
	if err == nil && k.Bundle() == "" {
		err = s.LookAgain(ctx, r.cfg, pause)
	}
	if err != nil {
		return document.Diagnosis{}, err
	}
	return doctor.Examine(s, doctor.Options(o))
}

// pause prints why it waits, and waits for the time d. It returns the error of ctx if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	fmt.Fprintf(os.Stderr, "some nodes report pods that are gone: looking again in %v\n", d)
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// planKubelets returns the effects of a change of kubelets' configuration on the cluster of a kubeconfig.
func planKubelets(ctx context.Context, k cli.Kubeconfig, v whatif.Variation) (document.KubeletPlan, error) {
	r, err := reach(k)
	if err != nil {
		return document.KubeletPlan{}, err
	}
	return r.plan(ctx, v)
}

func (r reached) plan(ctx context.Context, v whatif.Variation) (document.KubeletPlan, error) {
	reader, err := r.reader()
	if err != nil {
		return document.KubeletPlan{}, err
	}
	scene, err := rollout.Read(ctx, reader, r.cfg)
	if err != nil {
		return document.KubeletPlan{}, err
	}
	return scene.Plan(v)
}
