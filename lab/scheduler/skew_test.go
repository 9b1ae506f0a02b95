package scheduler_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/lab/releases"
	"github.com/tenon-numa/tenon/lab/workload"
)

// A scheduler that is older than API server and kubelets, as in the middle of an upgrade of the control plane: no
// kubelet refuses what it binds. Kubernetes supports one release of difference; the releases of -mixed.releases are
// tried.
func TestOlderSchedulers(t *testing.T) {
	if *mixed == "" {
		t.Skip("no -mixed.releases: there is no older scheduler")
	}
	for _, r := range strings.Split(*mixed, ",") {
		t.Run(r, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
			defer cancel()
			file, err := releases.Build(ctx, r, "tenon-scheduler", func(line string) { t.Log(line) })
			if err != nil {
				t.Fatal(err)
			}
			c, client, pods := programless(ctx, t)
			startFile(ctx, t, c, file, configured(c, alone))
			const seed, size = 11, 120
			if err := workload.Create(ctx, client, ours(workload.Mix(seed, "p-", size))...); err != nil {
				t.Fatal(err)
			}
			now, err := pods.Until(ctx, workload.Settled(size))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("scheduler %s, API server and kubelets %s, seed %d: %s", r, releases.Own(), seed, workload.Count(now))
			noRefusal(t, now)
			if bound(now) == 0 {
				t.Error("no pod was bound")
			}
		})
	}
}
