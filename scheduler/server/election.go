package server

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	schedconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/scheduler/plugin"
)

// election follows the lease by which one of several schedulers becomes the leader. kube-scheduler sets the elector's
// callbacks itself, so election wraps the lock, and receives each record that the elector reads or writes.
type election struct {
	resourcelock.Interface
	logger klog.Logger

	mu     sync.Mutex
	record resourcelock.LeaderElectionRecord
	read   bool
}

// followElection makes the elector of a configuration read the lease through the returned election. It returns nil if
// there is no election.
func followElection(ctx context.Context, cc *schedconfig.CompletedConfig) *election {
	if cc.LeaderElection == nil {
		return nil
	}
	e := &election{Interface: cc.LeaderElection.Lock, logger: plugin.Logger(ctx)}
	cc.LeaderElection.Lock = e
	return e
}

// state returns the state of the lease at its last read or write. A nil election returns the role Alone.
func (e *election) state() document.Election {
	if e == nil {
		return document.Election{Role: document.Alone}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out := document.Election{Role: document.Standby, Identity: e.Identity(), Leader: e.record.HolderIdentity,
		Renewed: e.record.RenewTime.Time}
	if e.read && out.Leader == out.Identity {
		out.Role = document.Leads
	}
	return out
}

func (e *election) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := e.Interface.Get(ctx)
	if err == nil {
		e.observe(*r)
	}
	return r, raw, err
}

func (e *election) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := e.Interface.Create(ctx, r)
	if err == nil {
		e.observe(r)
	}
	return err
}

func (e *election) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := e.Interface.Update(ctx, r)
	if err == nil {
		e.observe(r)
	}
	return err
}

// observe keeps a record, cut to a bounded length, and logs a change of the leader.
func (e *election) observe(r resourcelock.LeaderElectionRecord) {
	const maxHost = 253 // the longest host name, with which an identity begins
	r.HolderIdentity = r.HolderIdentity[:min(len(r.HolderIdentity), maxHost+len("_")+len(uuidForm))]
	e.mu.Lock()
	same := e.read && e.record.HolderIdentity == r.HolderIdentity
	e.record, e.read = r, true
	e.mu.Unlock()
	if same {
		return
	}
	switch own := e.Identity(); r.HolderIdentity {
	case own:
		e.logger.Info("This scheduler is the leader", "lease", e.Describe(), "identity", own)
	case "":
		e.logger.Info("This scheduler is a standby: the lease is free", "lease", e.Describe(), "identity", own)
	default:
		e.logger.Info("This scheduler is a standby", "lease", e.Describe(), "leader", r.HolderIdentity, "identity", own,
			"renewed", r.RenewTime.Format(time.RFC3339))
	}
}

// uuidForm has the length of the id with which an identity ends.
const uuidForm = "00000000-0000-0000-0000-000000000000"
