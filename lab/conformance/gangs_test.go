package conformance_test

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/lab/conformance"
)

// startGangs starts the gangs that can start as a whole, and returns the waiting pods that may be bound alone.
func (s perfect) startGangs(ctx context.Context, m *memory, waiting []*v1.Pod) (alone []*v1.Pod, err error) {
	if s.single {
		return waiting, nil
	}
	gangs := map[string][]*v1.Pod{}
	var names []string
	for _, p := range waiting {
		name := p.Labels[conformance.GangLabel]
		if name == "" || m.running(name) >= m.c.Gangs[name] {
			alone = append(alone, p)
			continue
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		gangs[name] = append(gangs[name], p)
	}
	if s.timid {
		return alone, nil
	}
	for _, name := range names {
		now, err := s.state(ctx, m)
		if err != nil {
			return nil, err
		}
		places, err := s.j.Start(ctx, now.Nodes, gangs[name], m.c.Gangs[name]-m.running(name))
		if err != nil {
			return nil, err
		}
		for _, p := range places {
			if err := m.bind(p.Pod, p.Node, nil); err != nil {
				return nil, err
			}
		}
		for _, p := range gangs[name] {
			if len(places) > 0 && p.Spec.NodeName == "" {
				alone = append(alone, p)
			}
		}
	}
	return alone, nil
}

// running returns how many pods of a gang run.
func (m *memory) running(gang string) (n int) {
	for _, p := range m.pods {
		if p.Labels[conformance.GangLabel] == gang && p.Status.Phase == v1.PodRunning {
			n++
		}
	}
	return n
}
