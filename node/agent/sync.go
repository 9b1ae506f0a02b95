package agent

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// cached asks for what the API server's cache has, which costs etcd nothing.
func cached() *metav1.GetOptions { return &metav1.GetOptions{ResourceVersion: "0"} }

// sync reads what the API server has of the agent's objects as far as watches do not tell of it. The layout
// and what the publisher writes are read from etcd where something is odd: nothing was read yet, a request
// for them failed, somebody else wrote them, or another agent stands before this one. Full looks read them
// where their watch is not open, and now and then all the same, because a watch may be wrong without anybody
// noticing. From etcd alone comes the layout then, too: the cache may not have the agent's own last write yet.
func (k *look) sync(ctx context.Context, full bool) error {
	slow := full && !time.Now().Before(k.slow)
	if err := k.syncNode(ctx, slow || full && !k.home.sees()); err != nil {
		return err
	}
	if k.also != nil {
		switch strange := k.also.strange(); {
		case strange || !k.begun:
			k.reread = &metav1.GetOptions{}
		case k.reread == nil && (slow || full && !k.also.sees()):
			k.reread = cached()
		}
	}
	strange := k.own.strange()
	if strange || !k.begun || slow || full && (!k.own.sees() || k.claim.rival != nil) {
		k.doubt = true
	}
	if !k.doubt {
		return nil
	}
	if err := k.syncLayout(ctx); err != nil {
		return err
	}
	k.doubt = false
	for slow && !time.Now().Before(k.slow) {
		k.slow = k.slow.Add(k.cfg.Reread)
	}
	return nil
}

// syncNode takes what the watch of the Node told, and asks for the Node where that is nothing.
func (k *look) syncNode(ctx context.Context, ask bool) error {
	if k.node = k.home.known(); k.node.uid != "" && !ask {
		return nil
	}
	node, err := k.nodes.Get(ctx, k.cfg.NodeName, *cached())
	if err != nil {
		return fmt.Errorf("get node %s: %w", k.cfg.NodeName, err)
	}
	k.home.learn(node)
	k.node = k.home.known()
	return nil
}

// syncLayout reads the layout, so that one that was changed or deleted is written again.
func (k *look) syncLayout(ctx context.Context) error {
	l, err := k.layouts.Get(ctx, k.cfg.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		k.begun, k.published, k.mark = true, nil, ""
		k.own.read(nil)
		return nil
	}
	if err != nil {
		return fmt.Errorf("get layout %s: %w", k.cfg.NodeName, err)
	}
	// A new agent goes on with the order that the one before it saw.
	if k.published == nil {
		for _, p := range l.Holdings {
			k.order.seen(p.UID)
		}
	}
	if l.Sequence > k.sequence {
		k.sequence = l.Sequence
	}
	if !k.begun || k.sequence > lastSequence {
		k.begun, k.sequence = true, ahead(k.sequence)
	}
	k.mark = mark(l, k.cfg.Labels)
	if k.published, err = content(l); err != nil {
		return err
	}
	if k.claim.read(l.Agent, k.own.read(l), time.Now()) {
		k.log.Info("another agent writes the layout; claiming it, because this one started later", "other", l.Agent.ID)
		k.mark = "" // so that the layout is written
	}
	return nil
}

// stride is how far apart the sequences of two agents begin: more than one of them ever writes while a write of its
// own is held up.
const stride = 1 << 20

// ahead returns where an agent begins to count that finds a sequence. A late write may have brought an old layout
// back; whoever read a newer one would take this agent's first reports for older than that.
//
// Nobody but a forger comes near the bound. From there an agent counts from the beginning again: schedulers
// refuse a layout whose sequence went back for some seconds only (cluster/kube, lateGrace).
func ahead(found int64) int64 {
	if found < 0 || found > lastSequence {
		return stride
	}
	return (found/stride + 1) * stride
}

// lastSequence is the greatest sequence that an agent goes on from.
const lastSequence = v1alpha1.MaxSequence - 2*stride
