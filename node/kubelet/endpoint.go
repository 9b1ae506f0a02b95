package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// Source returns the configuration of a kubelet.
type Source interface {
	Configuration(ctx context.Context) (Configuration, error)
}

// Endpoint reads the configuration of a running kubelet at /configz: its files, overridden by its flags, such as
// --reserved-cpus and --topology-manager-policy.
type Endpoint struct {
	url    string
	client *http.Client
}

// configzPath is the same at every kubelet (k8s.io/component-base/configz).
const configzPath = "/configz"

// answerTime bounds the wait for an answer. The kubelet is near, and files are read if it does not answer.
const answerTime = 3 * time.Second

// maxRefusal bounds, in bytes, how much of the kubelet's error text is shown. The text begins with the identity that
// was refused.
const maxRefusal = 300

// NewEndpoint returns an Endpoint that asks a kubelet directly, at the host of rc, for example https://10.0.0.7:10250.
// The kubelet requires the right to get nodes/configz (pkg/kubelet/server/auth.go).
func NewEndpoint(rc *rest.Config) (*Endpoint, error) { return newEndpoint(rc, configzPath) }

// NewProxyEndpoint returns an Endpoint that asks the kubelet of a node through the API server of rc. This requires the
// right to get nodes/proxy, which permits much more.
func NewProxyEndpoint(rc *rest.Config, node string) (*Endpoint, error) {
	return newEndpoint(rc, "/api/v1/nodes/"+url.PathEscape(node)+"/proxy"+configzPath)
}

func newEndpoint(rc *rest.Config, path string) (*Endpoint, error) {
	base, _, err := rest.DefaultServerUrlFor(rc)
	if err != nil {
		return nil, fmt.Errorf("address of the kubelet's configuration %q: %w", rc.Host, err)
	}
	client, err := rest.HTTPClientFor(rc)
	if err != nil {
		return nil, fmt.Errorf("make client of %s: %w", rc.Host, err)
	}
	own := *client
	own.Timeout = answerTime
	// A redirect would take the token elsewhere.
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Endpoint{url: base.JoinPath(path).String(), client: &own}, nil
}

// Configuration implements Source.
func (e *Endpoint) Configuration(ctx context.Context) (Configuration, error) {
	data, err := e.get(ctx)
	if err != nil {
		return Configuration{}, err
	}
	return e.parse(data)
}

func (e *Endpoint) parse(data []byte) (Configuration, error) {
	c, err := ParseEffective(data)
	if err != nil {
		return Configuration{}, fmt.Errorf("kubelet configuration from %s: %w", e.url, err)
	}
	return c, nil
}

func (e *Endpoint) get(ctx context.Context) (data []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("get kubelet configuration from %s: %w", e.url, err)
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err = io.ReadAll(io.LimitReader(resp.Body, maxConfig+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %q", resp.Status, data[:min(len(data), maxRefusal)])
	case len(data) > maxConfig:
		return nil, fmt.Errorf("more than %d bytes", maxConfig)
	}
	return data, nil
}

// ParseEffective reads the answer of /configz. It ignores unknown fields, which newer kubelets may send. A policy or an
// option that place does not model is an error. Kubelets before 1.36 do not name the kind.
func ParseEffective(data []byte) (Configuration, error) {
	var in struct {
		Config *kubeletv1beta1.KubeletConfiguration `json:"kubeletconfig"`
	}
	if err := utiljson.Unmarshal(data, &in); err != nil {
		return Configuration{}, fmt.Errorf("parse: %w", err)
	}
	if in.Config == nil {
		return Configuration{}, errors.New("answer has no kubeletconfig")
	}
	if kind := in.Config.GroupVersionKind(); !kind.Empty() {
		if err := checkKind(kind); err != nil {
			return Configuration{}, err
		}
	}
	c, err := configuration(in.Config)
	c.Effective = true
	return c, err
}

// Preferred asks a kubelet for its configuration, and reads its files until the kubelet has answered for the first
// time. From then on it ignores the files: they lack the kubelet's flags, and may describe the configuration after its
// next start. It is for one goroutine at a time.
type Preferred struct {
	Kubelet *Endpoint
	Files   Source
	// First and Last bound the pauses between requests while the kubelet has never answered: First is the pause after
	// the first request, and it doubles with each request up to Last. A busy kubelet answers soon, but a request that a
	// firewall drops takes seconds.
	First, Last time.Duration

	answered bool
	doubt    error
	pause    time.Duration // after the next request
	next     time.Time
}

// Configuration implements Source. A configuration that was read from the files has the kubelet's error as its Doubt.
// After the kubelet has answered once, its errors are returned and the files are not read.
func (p *Preferred) Configuration(ctx context.Context) (Configuration, error) {
	if now := time.Now(); p.answered || !now.Before(p.next) {
		data, err := p.Kubelet.get(ctx)
		if err == nil {
			// An answer that cannot be parsed still counts as an answer: reading the files would be a guess.
			p.answered = true
			return p.Kubelet.parse(data)
		}
		if p.answered {
			return Configuration{}, err
		}
		pause := max(p.First, p.pause)
		p.doubt, p.next, p.pause = err, now.Add(pause), min(2*pause, p.Last)
	}
	c, err := p.Files.Configuration(ctx)
	if err != nil {
		return c, errors.Join(p.doubt, err)
	}
	c.Doubt = p.doubt
	return c, nil
}
