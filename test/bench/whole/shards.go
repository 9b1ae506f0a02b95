package whole

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// This file lets a contender be several schedulers that divide the nodes, and the pods, between them.

// shardLabel divides the nodes of every cluster into MaxShards equal parts.
const shardLabel = "tenon.sh/shard"

// MaxShards is the largest number of schedulers of a contender.
const MaxShards = 4

// label gives each node of a cluster the label of its part.
func label(c *synthetic.Cluster) {
	for i, n := range c.Nodes {
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[shardLabel] = part(i)
	}
}

// shardLabels returns the labels that an agent copies from its Node; nil if it has none.
func shardLabels(n *metav1.ObjectMeta) map[string]string {
	if x := n.Labels[shardLabel]; x != "" {
		return map[string]string{shardLabel: x}
	}
	return nil
}

func part(i int) string { return string(rune('a' + i%MaxShards)) }

// shard returns the profile of one of several schedulers: its name, and the selector of its nodes. Of 2 schedulers,
// each has two parts of the nodes.
func (c Contender) shard(i int) (profile map[string]any, err error) {
	text, err := json.Marshal(c.Profile)
	if err == nil {
		err = json.Unmarshal(text, &profile) // a copy, since profiles are nested
	}
	if err != nil {
		return nil, fmt.Errorf("copy the profile of %s: %w", c.Name, err)
	}
	var parts []string
	for p := range MaxShards {
		if p%c.Shards == i {
			parts = append(parts, part(p))
		}
	}
	list, _ := profile["pluginConfig"].([]any)
	for _, x := range list {
		own, _ := x.(map[string]any)
		if args, ok := own["args"].(map[string]any); ok && own["name"] == "Tenon" {
			args["layoutSelector"] = fmt.Sprintf("%s in (%s)", shardLabel, strings.Join(parts, ","))
			profile["schedulerName"] = shardName(i)
			return profile, nil
		}
	}
	return nil, fmt.Errorf("divide nodes among schedulers of %s: its profile has no arguments of Tenon", c.Name)
}

func shardName(i int) string { return fmt.Sprintf("shard-%d", i) }

// arrivals returns the pods as a contender gets them: of several schedulers, each gets its share.
func (c Contender) arrivals(pods []*v1.Pod) []*v1.Pod {
	if c.Shards == 0 {
		return pods
	}
	out := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		out[i] = p.DeepCopy()
		out[i].Spec.SchedulerName = shardName(i % c.Shards)
	}
	return out
}

// fleet are the processes of a contender.
type fleet []*process

// cpu returns the CPU time of all processes.
func (f fleet) cpu() (sum time.Duration, err error) {
	for _, p := range f {
		t, e := p.cpu()
		sum, err = sum+t, errors.Join(err, e)
	}
	return sum, err
}

// peak returns the sum of the most memory that each process has had, in bytes.
func (f fleet) peak() (sum int64, err error) {
	for _, p := range f {
		n, e := p.peak()
		sum, err = sum+n, errors.Join(err, e)
	}
	return sum, err
}

// failure is process.failure of the first that has ended.
func (f fleet) failure() error {
	for _, p := range f {
		if err := p.failure(); err != nil {
			return err
		}
	}
	return nil
}

// stop ends all processes.
func (f fleet) stop() (err error) {
	for _, p := range f {
		err = errors.Join(err, p.stop())
	}
	return err
}
