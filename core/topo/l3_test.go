package topo_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/topo"
)

func fourCores(l3 ...int) topo.Spec {
	s := topo.Spec{NUMAs: []topo.NUMA{{ID: 0}}}
	for i, n := range l3 {
		s.Cores = append(s.Cores, topo.CoreSpec{L3: n, CPUs: idset.Of(idset.CPU(i))})
	}
	return s
}

// Groups have the order of the numbers in the description. Their names are their lowest CPUs if that gives the same
// order.
func TestNumbersOrderL3Groups(t *testing.T) {
	for _, c := range []struct {
		numbers []int
		order   []string // CPUs of the groups, in ascending order of the groups' names
		names   []idset.L3
	}{
		{[]int{0, 0, 1, 1}, []string{"0-1", "2-3"}, []idset.L3{0, 2}},
		{[]int{7, 7, 9, 9}, []string{"0-1", "2-3"}, []idset.L3{0, 2}},
		{[]int{9, 9, 7, 7}, []string{"2-3", "0-1"}, []idset.L3{7, 9}},
		{[]int{1, 0, 1, 0}, []string{"1,3", "0,2"}, []idset.L3{0, 1}},
		{[]int{topo.MaxL3, 5, topo.MaxL3, 5}, []string{"1,3", "0,2"}, []idset.L3{5, topo.MaxL3}},
	} {
		m, err := topo.New(fourCores(c.numbers...))
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, g := range m.Groups(topo.L3s) {
			order = append(order, g.CPUs.String())
		}
		if !reflect.DeepEqual(order, c.order) || !reflect.DeepEqual(m.L3s(), c.names) {
			t.Errorf("%v: groups %v named %v, want %v named %v", c.numbers, order, m.L3s(), c.order, c.names)
		}
		again, err := topo.New(m.Spec())
		if err != nil || !reflect.DeepEqual(again.Spec(), m.Spec()) {
			t.Errorf("%v: made again as %+v, %v", c.numbers, again.Spec(), err)
		}
	}
	for _, n := range []int{-1, topo.MaxL3 + 1} {
		if _, err := topo.New(fourCores(n)); err == nil || !strings.Contains(err.Error(), "L3 group") {
			t.Errorf("L3 group %d: %v", n, err)
		}
	}
}
