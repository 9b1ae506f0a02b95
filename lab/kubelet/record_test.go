package kubelet_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"hash"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
	"github.com/tenon-numa/tenon/core/topo"
)

// Records: what the managers of every release answered on a fixed set of machines, kept so that the test run compares
// place with releases whose judge takes minutes to build. A record has a sum of the answers on each machine, and what
// no prediction can know: which of several equal devices were taken, and the answers that are not judged. Replaying it
// draws the machine again, predicts, and must come to the same sum.

var writeRecords = flag.Bool("diff.record", false, "write the records of the release that -diff.release names")

const (
	recordDir      = "testdata/answers"
	recordMachines = 1400
	// leastRecorded is how many admissions each record must have.
	leastRecorded = 20000
)

// record is what a release answered on one machine.
type record struct {
	Seed       uint64
	Admissions int
	Sum        string // of all answers
	Notes      []note `json:",omitempty"`
}

// note is what place cannot know of one step.
type note struct {
	Step int
	// Devices has the ids of those blocks of the prediction that are open, in their order.
	Devices [][]string `json:",omitempty"`
	// Instead is the answer where it is not judged.
	Instead *answer `json:",omitempty"`
	// Groups is the memory manager's own count before an admission, where it does not follow from the holdings.
	Groups map[int]place.MemoryGroup `json:",omitempty"`
	// Pods are those that the node has after a restart that changed something.
	Pods *[]scenario.Held `json:",omitempty"`
	// Over is set where the managers contradict themselves: the machine ends with this step.
	Over bool `json:",omitempty"`
}

// answer is what managers do with a pod.
type answer struct {
	Asked   bool // a pod that the scheduler would not send, or that the kubelet would loop on, is not asked about
	Refusal string
	Held    []place.Holding `json:",omitempty"`
}

// recordHead is the first line of a file: what made the records.
type recordHead struct{ Release, Judge, Generator string }

// newRecordHead describes the judge and the generator as they are now.
func newRecordHead(release string) (h recordHead, err error) {
	h.Release = release
	judge, err := filepath.Glob("judge/*.go")
	if err != nil || len(judge) == 0 {
		return h, fmt.Errorf("list the judge's files: %d found (%w)", len(judge), err)
	}
	if h.Judge, err = sumOfFiles(append(judge, "judge/"+strings.TrimSuffix(release, withManagers)+".mod")); err != nil {
		return h, err
	}
	h.Generator, err = sumOfFiles([]string{"draw_test.go", "drawsteps_test.go", "written_test.go"})
	return h, err
}

// sumOfFiles is a sum of what files say. Comments and the layout of Go files do not count.
func sumOfFiles(files []string) (string, error) {
	sum := sha256.New()
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		if filepath.Ext(name) != ".go" {
			fmt.Fprintf(sum, "%s\n%s\n", filepath.Base(name), text)
			continue
		}
		var s scanner.Scanner
		s.Init(token.NewFileSet().AddFile(name, -1, len(text)), text, nil, 0)
		for {
			_, tok, lit := s.Scan()
			if tok == token.EOF {
				break
			}
			if tok != token.SEMICOLON {
				fmt.Fprintf(sum, "%s %s\n", tok, lit)
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// playback follows a machine step by step, without managers.
type playback struct {
	node *scenario.Node
	sum  hash.Hash
	step int
}

func newPlayback(s *scenario.Scenario, rules place.Rules) *playback {
	p := &playback{node: s.Begin(), sum: sha256.New()}
	p.node.Rules = rules
	return p
}

// predict returns the answer that place expects to an admission.
func (p *playback) predict(st scenario.Step, groups map[int]place.MemoryGroup) answer {
	u := p.node.Usage().WithGroups(groups)
	v := place.Place(u, &st.Pod)
	if v.Fits() && !place.Judge(u, &st.Pod, v, st.Demand).Fits() || loops(v) {
		return answer{}
	}
	return answer{true, string(v.Refusal), v.Holdings}
}

// hear adds an answer to the sum, and holds what the pod got.
func (p *playback) hear(st scenario.Step, a answer) {
	p.step++
	fmt.Fprintf(p.sum, "%d %s %v %s\n", p.step, st.Name, a.Asked, a.Refusal)
	for _, h := range a.Held {
		fmt.Fprintln(p.sum, h.Kind, scenario.Show(p.node.Machine, inOrder(h)))
	}
	if a.Asked && a.Refusal == "" {
		p.node.Hold(st.Name, a.Held)
	}
}

// do does a step that needs no answer.
func (p *playback) do(st scenario.Step, pods *[]scenario.Held) {
	p.step++
	p.node.Do(st)
	if pods != nil {
		p.node.Pods = slices.Clone(*pods)
	}
}

func (p *playback) total() string { return hex.EncodeToString(p.sum.Sum(nil))[:16] }

// inOrder sorts the blocks of a holding, which managers list in another order than place.
func inOrder(h place.Holding) place.Holding {
	h.Memory = slices.Clone(h.Memory)
	slices.SortFunc(h.Memory, func(a, b place.Block) int {
		if a.Kind != b.Kind {
			return strings.Compare(a.Kind, b.Kind)
		}
		return int(a.NUMAs) - int(b.NUMAs)
	})
	return h
}

// openDevices returns the ids that answer a prediction's open blocks; ok is false where the prediction differs
// otherwise.
func openDevices(said, got answer) (ids [][]string, ok bool) {
	if said.Asked != got.Asked || said.Refusal != got.Refusal || len(said.Held) != len(got.Held) {
		return nil, false
	}
	for i, h := range said.Held {
		if h.Container != got.Held[i].Container || h.Kind != got.Held[i].Kind || !h.Matches(got.Held[i]) {
			return nil, false
		}
		for k, d := range h.Devices {
			if d.Free || d.Loose {
				ids = append(ids, got.Held[i].Devices[k].IDs)
			}
		}
	}
	return ids, true
}

// close puts ids of the machine's devices into a prediction's open blocks.
func (a answer) close(m *topo.Machine, ids [][]string) (answer, error) {
	a.Held = slices.Clone(a.Held)
	for i := range a.Held {
		a.Held[i].Devices = slices.Clone(a.Held[i].Devices)
		for k := range a.Held[i].Devices {
			d := &a.Held[i].Devices[k]
			if !d.Free && !d.Loose {
				continue
			}
			if len(ids) == 0 {
				return a, errors.New("more devices are open than the record has")
			}
			*d = place.DeviceBlock{Resource: d.Resource, IDs: ids[0], NUMAs: numasOf(m, d.Resource, ids[0])}
			ids = ids[1:]
		}
	}
	if len(ids) > 0 {
		return a, errors.New("fewer devices are open than the record has")
	}
	return a, nil
}

func numasOf(m *topo.Machine, resource string, ids []string) (out topo.Mask) {
	r, _ := m.Resource(resource)
	for _, d := range r.Devices {
		if slices.Contains(ids, d.ID) {
			out |= d.NUMAs
		}
	}
	return out
}

// drawFor draws the machine of a seed as a kubelet of a release runs it.
func drawFor(k model, seed uint64) (*drawing, place.Rules, error) {
	d, err := draw(seed)
	if err != nil {
		return nil, place.Rules{}, err
	}
	d.managers = k.managers()
	if err := asOf(k, d.s); err != nil {
		return nil, place.Rules{}, fmt.Errorf("seed %d: %w", seed, err)
	}
	rules, err := rulesOf(configuration(d.s), d.s.Machine, k.release())
	return d, rules, err
}

// recordSeed has a judge play a machine, and records what it does.
func recordSeed(j judge, dir string, seed uint64) (record, error) {
	out := record{Seed: seed}
	d, rules, err := drawFor(j, seed)
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t, err := newTrial(ctx, j, filepath.Join(dir, fmt.Sprint("r", seed)), d.s, d.extras, place.Place, &tally{})
	if err != nil {
		return out, fmt.Errorf("seed %d: %w", seed, err)
	}
	defer t.end()
	p := newPlayback(d.s, rules)
	for d.names < perMachine {
		st := d.next(t.node)
		n, over, err := p.follow(t, st)
		if err != nil {
			return out, fmt.Errorf("seed %d: %w", seed, err)
		}
		if !reflect.DeepEqual(n, note{Step: p.step}) {
			out.Notes = append(out.Notes, n)
		}
		if over {
			break
		}
		if st.Do == scenario.Admit {
			out.Admissions++
		}
		d.refused = st.Do == scenario.Admit && !t.node.Has(st.Name)
	}
	out.Sum = p.total()
	return out, nil
}

// follow does a step on the managers, and returns what a prediction would miss.
func (p *playback) follow(t *trial, st scenario.Step) (n note, over bool, err error) {
	if st.Do == scenario.Admit {
		if n.Groups, err = t.groups(); err != nil {
			return n, false, err
		}
	}
	err = t.step(st)
	n.Step = p.step + 1
	if errors.Is(err, errOver) {
		p.step++
		n.Over = true
		return n, true, nil
	}
	if err != nil {
		return n, false, err
	}
	if st.Do != scenario.Admit {
		p.do(st, nil)
		if !reflect.DeepEqual(p.node.Pods, t.node.Pods) && len(p.node.Pods)+len(t.node.Pods) > 0 {
			pods := slices.Clone(t.node.Pods)
			n.Pods, p.node.Pods = &pods, slices.Clone(pods)
		}
		return n, false, nil
	}
	got := answer{Asked: t.asked, Refusal: t.latest.Reason}
	if t.node.Has(st.Name) {
		got.Held = t.node.Pods[len(t.node.Pods)-1].Holdings
	}
	ids, ok := openDevices(p.predict(st, n.Groups), got)
	if n.Devices = ids; !ok {
		n.Devices, n.Instead = nil, &got
	}
	p.hear(st, got)
	return n, false, nil
}

// replayRecord predicts what a record has, and fails where that differs.
func replayRecord(k model, r record) error {
	d, rules, err := drawFor(k, r.Seed)
	if err != nil {
		return err
	}
	p, notes := newPlayback(d.s, rules), r.Notes
	for d.names < perMachine {
		st := d.next(p.node)
		n := note{}
		if len(notes) > 0 && notes[0].Step == p.step+1 {
			n, notes = notes[0], notes[1:]
		}
		if n.Over {
			break
		}
		if st.Do != scenario.Admit {
			p.do(st, n.Pods)
			d.refused = false
			continue
		}
		a := p.predict(st, n.Groups)
		if n.Instead != nil {
			a = *n.Instead
		} else if a, err = a.close(p.node.Machine, n.Devices); err != nil {
			return fmt.Errorf("pod %s: %w", st.Name, err)
		}
		p.hear(st, a)
		d.refused = !p.node.Has(st.Name)
	}
	if p.total() != r.Sum {
		return errors.New("other answers than the record has")
	}
	return nil
}

func recordFile(release string) string { return filepath.Join(recordDir, release+".gz") }

// readRecords reads a file of records.
func readRecords(release string) (h recordHead, out []record, err error) {
	file, err := os.Open(recordFile(release))
	if err != nil {
		return h, nil, err
	}
	defer file.Close()
	z, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		return h, nil, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	lines := json.NewDecoder(z)
	if err := lines.Decode(&h); err != nil {
		return h, nil, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	for {
		var r record
		if err := lines.Decode(&r); errors.Is(err, io.EOF) {
			return h, out, nil
		} else if err != nil {
			return h, nil, fmt.Errorf("read %s: %w", file.Name(), err)
		}
		out = append(out, r)
	}
}

// TestRecord writes the records of the release that -diff.release names (make diff RECORD=yes).
func TestRecord(t *testing.T) {
	if !*writeRecords {
		t.Skip("-diff.record is not set")
	}
	release := *diffRelease
	head, err := newRecordHead(release)
	if err != nil {
		t.Fatal(err)
	}
	dir, seeds := judgeDir(t), make(chan uint64)
	all := make([]record, recordMachines)
	var wg sync.WaitGroup
	for range *workers {
		j := newProgram(t, release)
		wg.Go(func() {
			for seed := range seeds {
				r, err := recordSeed(j, dir, seed)
				if err == nil {
					err = replayRecord(j, r)
				}
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				all[seed-1] = r
			}
		})
	}
	for seed := range uint64(recordMachines) {
		seeds <- seed + 1
	}
	close(seeds)
	wg.Wait()
	if t.Failed() {
		return
	}
	if err := writeRecordFile(head, all); err != nil {
		t.Fatal(err)
	}
}

func writeRecordFile(head recordHead, all []record) error {
	if err := os.MkdirAll(recordDir, 0o755); err != nil {
		return err
	}
	file, err := os.Create(recordFile(head.Release))
	if err != nil {
		return err
	}
	defer file.Close()
	z, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(z)
	err = lines.Encode(head)
	for _, r := range all {
		err = errors.Join(err, lines.Encode(r))
	}
	return errors.Join(err, z.Close(), file.Close())
}

// Place predicts what the managers of every release answered.
func TestPlaceAgreesWithTheRecords(t *testing.T) {
	models := []kubeletOf{{place.NewestRelease - 1, true}, {place.NewestRelease, true}}
	for r := place.OldestRelease; r <= place.NewestRelease; r++ {
		models = append(models, kubeletOf{r, false})
	}
	for _, k := range models {
		r := nameOf(k)
		t.Run(r, func(t *testing.T) {
			t.Parallel()
			head, all, err := readRecords(r)
			if err != nil {
				t.Fatal(err)
			}
			now, err := newRecordHead(r)
			if err != nil {
				t.Fatal(err)
			}
			if head != now {
				t.Fatalf("the records are of %+v, the judge and the generator are %+v now: make diff RECORD=yes RELEASE=%s",
					head, now, r)
			}
			admissions, unjudged := 0, 0
			for _, x := range all {
				admissions += x.Admissions
				for _, n := range x.Notes {
					if n.Instead != nil {
						unjudged++
					}
				}
				if err := replayRecord(k, x); err != nil {
					t.Fatalf("seed %d: %v\nthe managers' own judgement: make diff RELEASE=%s S=%d N=1", x.Seed, err, r, x.Seed)
				}
			}
			t.Logf("%d machines, %d admissions, %d of them not judged", len(all), admissions, unjudged)
			if admissions < leastRecorded || 50*unjudged > admissions {
				t.Errorf("%d admissions, %d of them not judged; want at least %d, and at most 2 %%", admissions, unjudged,
					leastRecorded)
			}
		})
	}
}
