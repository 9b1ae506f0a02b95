package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/kubelet"
)

// admission is one decision of a kubelet's managers, with the state on which it is based.
type admission struct {
	kubelet.Admission
	held   map[string][]place.Holding // by UID
	groups map[int]place.MemoryGroup
}

func (a admission) rules() rules { return rules{a.Policy, a.Scope} }

// releases reports whether the managers release the resources of a pod before they decide: the kubelet has handled
// its first pods, and no longer lists the pod as active.
func (a admission) releases(uid string) bool { return a.Ready && !slices.Contains(a.Active, uid) }

// readJournal reads the decisions of a node's managers, oldest first, and decodes the state before each. It skips
// empty lines and lines that a killed kubelet has left incomplete. Without a file it returns nothing.
func readJournal(dir string, m *topo.Machine) (out []admission, err error) {
	text, err := os.ReadFile(filepath.Join(dir, kubelet.JournalFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read admissions: %w", err)
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var a admission
		if err := json.Unmarshal(line, &a.Admission); err != nil {
			continue // the line is empty, or a kubelet was killed in the middle of it
		}
		c, err := readCheckpoints(func(name string) ([]byte, error) { return a.States[name], nil })
		if err != nil {
			return nil, fmt.Errorf("admission of pod %s: %w", a.Name, err)
		}
		if a.held, err = c.holdings(m); err != nil {
			return nil, fmt.Errorf("admission of pod %s: %w", a.Name, err)
		}
		a.groups, a.States = c.groups(m), nil
		out = append(out, a)
	}
	return out, nil
}

// forgetJournal empties the journal of a node.
func forgetJournal(dir string) error {
	err := os.Truncate(filepath.Join(dir, kubelet.JournalFile), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("empty journal: %w", err)
	}
	return nil
}
