package lab

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
)

// The machine that an agent reads loses CPUs and gets hugepages, and is the described one again.
func TestAMachineChanges(t *testing.T) {
	const text = "numa 0 cpus 0-3/4-7 memory 8Gi hugepages-1Gi 2\nnuma 1 cpus 8-9 memory 8Gi hugepages-1Gi 4"
	h := &hardware{}
	for _, c := range []struct {
		offline idset.Set[idset.CPU]
		pages   int64
		cpus    string
		want    [2]int64
	}{
		{idset.Of[idset.CPU](3, 7), 1, "0-2,4-6,8-9", [2]int64{3, 5}},
		{idset.Of[idset.CPU](7), -3, "0-6,8-9", [2]int64{0, 1}},
		{idset.Set[idset.CPU]{}, 0, "0-9", [2]int64{2, 4}},
	} {
		if err := h.change(text, c.offline, c.pages); err != nil {
			t.Fatal(err)
		}
		m, _, err := h.ReadMachine(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got [2]int64
		for i, n := range m.NUMAs() {
			got[i] = n.Capacity("hugepages-1Gi") >> 30
		}
		if m.CPUs().String() != c.cpus || got != c.want {
			t.Errorf("without %s and with %+d pages: CPUs %s, pages %v", c.offline, c.pages, m.CPUs(), got)
		}
	}
}

// Requests of an agent hang until they are answered, or until their context ends.
func TestRequestsHang(t *testing.T) {
	served := httptest.NewServer(http.NotFoundHandler())
	defer served.Close()
	p := &reportDelay{}
	client := &http.Client{Transport: p.wrap(http.DefaultTransport)}
	get := func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, served.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	p.hang()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if get(ctx) == nil {
		t.Error("a request was answered")
	}
	got := make(chan error, 1)
	go func() { got <- get(t.Context()) }()
	p.answer()
	if err := <-got; err != nil {
		t.Error(err)
	}
	if err := get(t.Context()); err != nil {
		t.Error(err)
	}
}
