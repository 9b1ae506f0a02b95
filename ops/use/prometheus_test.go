package use

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A Prometheus server that answers each kind of query with a series of two times.
func TestPrometheus(t *testing.T) {
	now := time.Unix(1_000_000_020, 0)
	end := now.Truncate(step).Unix()
	var queries []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.FormValue("query")
		queries = append(queries, q)
		container := `"namespace":"ml","pod":"p","container":"c"`
		labels := map[string]string{"rate(numa_node_cpu": `"numa_node":"0"`, "numa_node_memory_used": `"numa_node":"0"`,
			"rate(tenon_container": container + `,"numa_nodes":"0"`, "sum by": container + `,"numa_node":"8"`,
			"tenon_container_memory_remote": container}
		text := ""
		for prefix, l := range labels {
			if strings.HasPrefix(q, prefix) {
				text = fmt.Sprintf(`{"metric":{%s},"values":[[%d,"NaN"],[%d,"1"]]}`, l, end-30, end)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, text)
	}))
	defer s.Close()
	p, err := NewPrometheus(s.URL, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	got := p.Node(t.Context(), "n", "ml/p")
	if got.Problem != "" || got.Source != "prometheus" || len(got.Samples) != 1 {
		t.Fatalf("the answer is %+v", got)
	}
	last := got.Samples[0]
	if *last.NUMAs[0].CPUs != 1 || *last.NUMAs[0].Memory != 1 || last.NUMAs[0].MemoryFree != nil {
		t.Errorf("NUMA nodes use %+v", last.NUMAs)
	}
	c := last.Containers[0]
	if *c.CPUs != 1 || c.NUMAs != "0" || *c.Remote != 1 || c.Memory[0].NUMA != 8 || c.Memory[0].Bytes != 1 {
		t.Errorf("the container uses %+v", c)
	}
	if all := strings.Join(queries, "\n"); len(queries) != 9 || !strings.Contains(all, `node="n",namespace="ml",pod="p"`) {
		t.Errorf("the queries are %s", all)
	}
	s.Close()
	if gone := p.Node(t.Context(), "n", ""); !strings.Contains(gone.Problem, "does not answer") || len(gone.Samples) != 0 {
		t.Errorf("without Prometheus: %+v", gone)
	}
}

// A server that has more numbers than any node is not read to the end.
func TestAnAnswerOfPrometheusThatIsTooLong(t *testing.T) {
	sent := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		const one = `{"metric":{},"values":[[1000000000,"1"]]},`
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[`)
		part := []byte(strings.Repeat(one, 1_000))
		for sent < 4*maxAnswer {
			n, err := w.Write(part)
			if sent += n; err != nil {
				return
			}
		}
		fmt.Fprint(w, strings.TrimSuffix(one, ",")+`]}}`)
	}))
	defer s.Close()
	p, err := NewPrometheus(s.URL, func() time.Time { return time.Unix(1e9, 0) })
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Node(t.Context(), "n", ""); !strings.Contains(got.Problem, "longer than") || len(got.Samples) != 0 {
		t.Errorf("the answer is %.300q", got.Problem)
	}
}
