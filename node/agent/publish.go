package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
)

// state returns what a layout says of a node.
func state(name string, l v1alpha1.Layout) *ledger.Node {
	var held []place.Holding
	for _, e := range l.Entries {
		held = append(held, e.Holdings...)
	}
	u := place.NewUsage(l.Machine, l.Rules).Hold(held...).WithGroups(l.Groups)
	return &ledger.Node{Name: name, Machine: l.Machine, Rules: l.Rules, Entries: l.Entries, Usage: u, Inexact: l.Inexact}
}

// publish writes the layout, and what the publisher makes of the node, as far as they changed. Neither
// keeps the other from being written.
func (k *look) publish(ctx context.Context, l *v1alpha1.NodeLayout, n *ledger.Node) (wrote bool, err error) {
	wrote, err = k.publishLayout(ctx, l)
	k.told(v1alpha1.Kind, wrote, err)
	k.cfg.Witness.Saw(n, k.sequence)
	if k.cfg.Publisher == nil || k.claim.rival != nil {
		return wrote, err
	}
	also, alsoErr := k.publishAlso(ctx, n)
	return wrote || also, errors.Join(err, alsoErr)
}

// publishAlso has the publisher publish.
func (k *look) publishAlso(ctx context.Context, n *ledger.Node) (wrote bool, err error) {
	p := k.cfg.Publisher
	err = k.also.write(func() (is metav1.Object, err error) {
		is, wrote, err = p.Publish(ctx, n, k.meta(), k.reread)
		return is, err
	})
	k.told(p.Object(), wrote, err)
	if err == nil {
		k.reread = nil
	}
	return wrote, err
}

// meta is what the agent decides of the metadata of what it writes.
func (k *look) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: k.cfg.NodeName, Labels: k.node.labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: k.cfg.NodeName, UID: k.node.uid}}}
}

func (k *look) told(object string, wrote bool, err error) {
	if wrote || err != nil {
		k.cfg.Witness.Wrote(object, err)
	}
}

// publishLayout writes the layout where it differs from what the API server has.
func (k *look) publishLayout(ctx context.Context, l *v1alpha1.NodeLayout) (wrote bool, err error) {
	now, err := content(l)
	if err != nil {
		return false, err
	}
	l.ObjectMeta = k.meta()
	should := mark(l, k.cfg.Labels)
	right := !k.astray && k.published != nil && bytes.Equal(now, k.published) && k.mark == should
	if err := k.claim.may(time.Now(), right); err != nil || right {
		return false, err
	}
	k.sequence++ // also if this fails: it may be done later, and must be told from the next one
	l.Sequence, l.Agent = k.sequence, k.claim.me
	if err := k.own.write(func() (metav1.Object, error) { return k.layouts.Apply(ctx, l) }); err != nil {
		k.doubt, k.astray = true, k.astray || open(err)
		return false, err
	}
	k.published, k.mark, k.astray = now, should, false
	k.log.V(1).Info("published", "sequence", l.Sequence, "pods", len(l.Holdings), "bytes", len(now))
	return true, nil
}

// open reports whether the server, or whatever is before it, may do what was asked for in spite of the error.
func open(err error) bool {
	var said apierrors.APIStatus
	return !errors.As(err, &said) || said.Status().Code >= 500
}

// content is the part of a layout that the agent decides, in a form that can be compared.
func content(l *v1alpha1.NodeLayout) ([]byte, error) {
	data, err := json.Marshal(v1alpha1.NodeLayout{Summary: l.Summary, Machine: l.Machine, Rules: l.Rules,
		Holdings: l.Holdings, MemoryGroups: l.MemoryGroups, Kubelet: l.Kubelet, Inexact: l.Inexact})
	if err != nil {
		return nil, fmt.Errorf("encode layout %s: %w", l.Name, err)
	}
	return data, nil
}

// nobody is the Witness of an agent that has none.
type nobody struct{}

func (nobody) Saw(*ledger.Node, int64)           {}
func (nobody) Wrote(string, error)               {}
func (nobody) Looked(time.Duration, bool, error) {}
