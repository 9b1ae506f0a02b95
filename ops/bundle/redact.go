package bundle

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// This file replaces names by hashes.

// texts replaces every string in a value by the result of do. It changes lists and maps in place, and leaves the
// names of fields. If the name of a field looks like the name of a credential, do receives the text [removed] instead
// of the value.
func texts(value any, do func(string) string) any {
	switch v := value.(type) {
	case string:
		return do(v)
	case []any:
		for i := range v {
			v[i] = texts(v[i], do)
		}
	case map[string]any:
		for name := range v {
			if _, ok := v[name].(string); ok && secretName.MatchString(name) && !harmless.MatchString(name) {
				v[name] = redacted
			}
			v[name] = texts(v[name], do)
		}
	}
	return value
}

// hasher replaces names of objects by keyed hashes. The key is stored nowhere, so no reader can compute the hashes of
// guessed names.
type hasher struct {
	key   []byte
	known map[string]bool
	// bases are names of workloads. The names of their pods begin with them.
	bases []string
}

// usual has names that every cluster has, and words with a meaning in a layout. They are not hashed.
var usual = words(`default kube-system kube-public kube-node-lease tenon-system tenon-agents tenon-agent tenon-scheduler
	tenon-console kube-scheduler default-scheduler none static restricted best-effort single-numa-node container pod node
	memory cpu kubelet agent files app init sidecar gpu dax movable nic nvme infiniband accelerator pods`)

// token matches words that may be the name of an object, or begin with such a name.
var token = regexp.MustCompile(`[a-z0-9]([-.a-z0-9]*[a-z0-9])?`)

// newHasher returns a hasher for the names of the objects in lists, of their owners and of their namespaces. It does
// not replace the names in usual.
func newHasher(key []byte, lists map[string][]map[string]any) *hasher {
	n := &hasher{key: key, known: map[string]bool{}}
	for _, resource := range words(`v1_nodes v1_pods v1_namespaces v1_persistentvolumeclaims v1_persistentvolumes
		apps_v1_deployments apps_v1_replicasets apps_v1_statefulsets apps_v1_daemonsets batch_v1_jobs
		policy_v1_poddisruptionbudgets resource.k8s.io_v1_resourceslices resource.k8s.io_v1_resourceclaims
		resource.k8s.io_v1_resourceclaimtemplates autoscaling.x-k8s.io_v1_provisioningrequests`) {
		for _, o := range lists[resource] {
			meta, _ := o["metadata"].(map[string]any)
			name, _ := meta["name"].(string)
			n.add(name, strings.HasPrefix(resource, "apps_") || strings.HasPrefix(resource, "batch_"))
			owners, _ := meta["ownerReferences"].([]any)
			for _, owner := range owners {
				if o, ok := owner.(map[string]any); ok {
					name, _ := o["name"].(string)
					n.add(name, true)
				}
			}
		}
	}
	for _, list := range lists {
		for _, o := range list {
			n.add(text(o, "metadata.namespace"), false)
		}
	}
	slices.SortFunc(n.bases, func(a, b string) int { return len(a) - len(b) })
	return n
}

func (n *hasher) add(name string, base bool) {
	if name == "" || slices.Contains(usual, name) || n.known[name] {
		return
	}
	n.known[name] = true
	if base {
		n.bases = append(n.bases, name)
	}
}

// replace returns the text with hashes in place of the names.
func (n *hasher) replace(text string) string {
	return token.ReplaceAllStringFunc(text, n.word)
}

// word returns the replacement of a word that is a name, or that begins with a name and a dot. It returns other words
// unchanged.
func (n *hasher) word(word string) string {
	for at := len(word); at > 0; at = strings.LastIndexByte(word[:at], '.') {
		if n.known[word[:at]] {
			return n.hash(word[:at]) + word[at:]
		}
	}
	return word
}

// hash returns the hash of a name. If the name begins with the name of a workload, its hash begins with the hash of
// that workload, so that the pods of one workload can be recognised. The ordinal of a pod stays.
func (n *hasher) hash(name string) string {
	for _, base := range n.bases {
		if rest, ok := strings.CutPrefix(name, base+"-"); ok {
			if strings.Trim(rest, "0123456789") != "" {
				rest = n.sum(rest)[:5]
			}
			return n.sum(base) + "-" + rest
		}
	}
	return n.sum(name)
}

func (n *hasher) sum(text string) string {
	h := hmac.New(sha256.New, n.key)
	h.Write([]byte(text))
	return "x" + hex.EncodeToString(h.Sum(nil))[:10]
}
