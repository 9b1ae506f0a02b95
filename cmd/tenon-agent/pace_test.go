package main

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/node/agent"
)

// paced reads the arguments as the program does.
func paced(t *testing.T, args string) (cfg agent.Config, err error) {
	t.Helper()
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	var p pace
	p.flags(fs)
	if err := fs.Parse(strings.Fields(args)); err != nil {
		t.Fatal(err)
	}
	err = p.open(&cfg)
	return cfg, err
}

func TestPaceOfTheAgent(t *testing.T) {
	cfg, err := paced(t, "")
	if err != nil || cfg.Interval != 200*time.Millisecond || cfg.Resync != 30*time.Second ||
		cfg.Reread != 10*time.Minute || cfg.Labels != nil {
		t.Errorf("by default: %+v, %v", cfg, err)
	}
	cfg, err = paced(t, "--write-interval=1s --resync=1m --reread=1m "+
		"--layout-labels=tenon.sh/shard,topology.kubernetes.io/zone")
	if err != nil || cfg.Interval != time.Second || cfg.Resync != time.Minute || cfg.Reread != time.Minute ||
		!slices.Equal(cfg.Labels, []string{"tenon.sh/shard", "topology.kubernetes.io/zone"}) {
		t.Errorf("as asked for: %+v, %v", cfg, err)
	}
}

func TestPaceThatIsRefused(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("a,", agent.MaxLabels+1), ",")
	for args, want := range map[string]string{
		"--write-interval=0":        "--write-interval=0s is not between 10ms and 1m0s",
		"--write-interval=2m":       "--write-interval=2m0s is not between",
		"--resync=10ms":             "--resync=10ms is not between 1s and 1h0m0s",
		"--resync=-1s":              "--resync=-1s is not between",
		"--resync=1m --reread=59s":  "--reread=59s is not between 1m0s and 24h0m0s",
		"--reread=25h":              "--reread=25h0m0s is not between",
		"--layout-labels=a/b/c":     `--layout-labels: label "a/b/c"`,
		"--layout-labels=zone,":     `--layout-labels: label ""`,
		"--layout-labels=" + many:   "--layout-labels: 17 labels to copy, at most 16",
		"--layout-labels=zone,zone": `--layout-labels: label "zone" is named twice`,
	} {
		if _, err := paced(t, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v does not say %q", args, err, want)
		}
	}
}

// Every flag is documented.
func TestPaceIsDocumented(t *testing.T) {
	document, err := os.ReadFile("../../docs/reference/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	var fs flag.FlagSet
	new(pace).flags(&fs)
	fs.VisitAll(func(f *flag.Flag) {
		if !strings.Contains(string(document), "`--"+f.Name+"`") {
			t.Errorf("docs/reference/agent.md does not say what --%s is", f.Name)
		}
	})
}
