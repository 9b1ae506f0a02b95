package apply

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// An endless answer of a kubelet takes no memory: reading it ends with an error that names the answer.
func TestAnswersOfKubeletsAreBounded(t *testing.T) {
	answer := `{"kubeletconfig":{}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(answer)) // the client may have gone
	}))
	defer server.Close()
	p, err := NewPods(&rest.Config{Host: server.URL}, PodOptions{Namespace: "kube-system", Image: "image"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Configz(t.Context(), "node"); err != nil || string(got) != answer {
		t.Errorf("answer %q, error %v", got, err)
	}
	answer = strings.Repeat("x", maxAnswer+1)
	for what, read := range map[string]func() error{
		"proxy/configz": func() error { _, err := p.Configz(t.Context(), "node"); return err },
		"/log":          func() error { _, err := p.log(t.Context(), "node"); return err },
	} {
		if err := read(); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: error %v", what, err)
		}
	}
}
