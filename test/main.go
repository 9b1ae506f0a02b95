// Command test runs every check of the modules in go.work, in three parts, the quickest first. Part unit: whether
// generated files are current, go vet, and the packages that link neither a kubelet nor an API server, under the race
// detector where they use several goroutines. It also has interleavings of the ledger, the work of the core beside a
// recorded baseline, the linters, and the plugin for Headlamp. Part lab: the other packages, images and chart, the
// chart on an API server, the console in a browser, the plugin for Volcano's scheduler, and the plugin in
// scheduler-library and gangs of other operators where these are built. Part machines: the tests on real nodes. Before
// that it installs the Debian packages that some tests need. The tests of the node whose agent pins containers and of
// the one whose CPUs come from claims run only if something that they depend on has changed in the last 60 commits. If
// the run has taken an hour by then, these tests are NOT RUN. A trial that prints nothing for ten minutes is ended, and
// run again.
//
//	go run ./test [ARGS...]        all of the above; ARGS go to go test
//	go run ./test unit [ARGS...]   only that part; so for lab and machines
//	go run ./test verify           only generated files and the rules of the repository
//	go run ./test lint             only the linters
//	go run ./test headlamp         only the plugin for Headlamp, which needs node
//	go run ./test race [ARGS...]   only the heavy packages, under the race detector
//	go run ./test node [ARGS...]   only the tests on real nodes, always all of them
//	go run ./test install [ARGS..] only the installation on a real node, which the other commands leave out: it
//	                               builds images first, and takes longer than the rest
//	go run ./test console [ARGS..] only the pages of the console, in a real browser
//	go run ./test volcano [ARGS..] only the plugin for Volcano's scheduler, which needs a build of another release
//	                               of Kubernetes
//	go run ./test descheduler [ARGS..] only the plugin for the descheduler: its own tests, and on lab clusters
//	go run ./test library [ARGS..] only the plugin in sigs.k8s.io/scheduler-library, which needs a build of another
//	                               release of Kubernetes. Part lab leaves it out where that is not built
//	go run ./test operators [ARGS..] only gangs of Kueue, JobSet and LeaderWorkerSet, which part lab leaves out where
//	                               these are not built: that takes some seven minutes
//	go run ./test doctor           only the doctor and changes of kubelets: in lab clusters, on ten of them, and on a
//	                               real node with systemd, which takes 40 minutes
//	go run ./test mixed            only kubelets of four releases under one scheduler, upgraded one by one, and older
//	                               schedulers, which takes 20 minutes to build
//	go run ./test conformance      only the short form of the conformance suite, on Tenon; part lab has it as a test
//	go run ./test model            only every interleaving of three pods, two reports and a restart, deeper
//	go run ./test packages         only installs the Debian packages
//
// Invariant: it prints what it runs before it runs it, and the last lines and the exit code give the result. Before
// them come the last lines of each test that failed. What cannot be tested on this machine is printed at once and
// again at the end (NOT RUN). When CI is set in the environment, that is a failure, except for lack of time and for
// the plugin for Headlamp.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is what -h prints.
const usage = `usage: go run ./test [COMMAND] [ARGS...]

Without a command all checks run, and ARGS go to go test. Commands:
  unit         only what links neither a kubelet nor an API server, the linters, and verify
  lab          only what links them; images, chart, console, the plugins for Volcano's scheduler and the descheduler,
               and, where built, the plugin in scheduler-library and gangs of operators
  machines     only the tests on real nodes, like all checks, which run one of these after recent changes only
  verify       only generated files and the rules of the repository
  lint         only the linters
  headlamp     only the plugin for Headlamp, which needs node
  race         only the heavy packages, under the race detector
  node         only the tests on real nodes
  install      only the installation on a real node, which all checks leave out
  console      only the pages of the console, in a real browser
  volcano      only the plugin for Volcano's scheduler
  descheduler  only the plugin for the descheduler
  library      only the plugin in sigs.k8s.io/scheduler-library
  operators    only gangs of Kueue, JobSet and LeaderWorkerSet (the first time some seven minutes to build these)
  doctor       only the doctor and changes of kubelets, on more clusters, and on a real node (40 minutes)
  mixed        only kubelets of four releases under one scheduler, and older schedulers (the first time 20 minutes)
  conformance  only the short form of the conformance suite, on Tenon
  model        only every interleaving of three pods, two reports and a restart, to depth 2
  packages     only installs the Debian packages that tests need
`

func main() {
	if len(os.Args) > 1 && slices.Contains([]string{"-h", "-help", "--help", "help"}, os.Args[1]) {
		fmt.Print(usage)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &runner{out: os.Stdout, began: time.Now()}
	err := r.run(ctx, os.Args[1:])
	for _, f := range r.failed {
		r.say("%s", strings.Join(f, "\n"))
	}
	for _, line := range r.untested {
		r.say("%s", line)
	}
	if err != nil {
		r.say("FAIL: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		stop()
		os.Exit(1)
	}
	r.say("PASS: %s", strings.Join(r.done, ", "))
}

// run runs what the command line requests.
func (r *runner) run(ctx context.Context, args []string) error {
	what := ""
	if len(args) > 0 {
		what = args[0]
	}
	switch what {
	case "verify":
		return r.verify(ctx)
	case "headlamp":
		return r.headlamp(ctx)
	case "lint":
		err := r.lint(ctx)
		if err == nil && len(r.untested) > 0 {
			err = errors.New("the linters did not run")
		}
		return err
	}
	err := r.debianPackages(ctx)
	switch what {
	case "packages":
		if r.passed("Debian packages"); err == nil && len(r.untested) > 0 {
			err = errors.New("some Debian packages cannot be had")
		}
		return err
	case "node":
		return errors.Join(err, r.trial(ctx, realNodes, args[1:]))
	case "install":
		return errors.Join(err, r.trial(ctx, installation, args[1:]))
	case "console":
		return errors.Join(err, r.trial(ctx, console, args[1:]))
	case "volcano":
		return errors.Join(err, r.volcano(ctx, args[1:]))
	case "descheduler":
		return errors.Join(err, r.descheduler(ctx, args[1:]))
	case "library":
		return errors.Join(err, r.library(ctx, args[1:]))
	case "operators":
		return errors.Join(err, r.operators(ctx, args[1:]))
	case "race":
		return errors.Join(err, r.heavy(ctx, args[1:], true))
	case "unit", "lab", "machines":
		return errors.Join(err, r.part(ctx, what, args[1:]))
	case "conformance", "doctor", "mixed", "model":
		return errors.Join(err, r.runLong(ctx, what, args[1:]))
	}
	return errors.Join(err, r.part(ctx, "unit", args), r.part(ctx, "lab", args), r.part(ctx, "machines", args))
}

// part runs the steps of one part. If a step fails, the others still run: one run reports everything that has to be
// corrected. Lab clusters wait most of the time, so two rows of steps run beside each other where a step has one
// cluster.
func (r *runner) part(ctx context.Context, name string, args []string) error {
	switch name {
	case "unit":
		return errors.Join(r.verify(ctx), r.step(ctx, "vet", "vet", "work"), r.light(ctx, args),
			// These tests make much garbage, and keep little: with rarer collections they take an eighth less.
			r.program(ctx, io.Discard, "every interleaving", "env", "GOGC=400", "go", "test", "-timeout", "40m",
				"./core/ledger", "-run", interleavings, "-model.depth", "1"),
			r.step(ctx, "effort of the core", "run", "./test/effort"), r.lint(ctx), r.headlamp(ctx))
	case "lab":
		return errors.Join(r.heavy(ctx, args, false), beside(func() error {
			return errors.Join(r.chart(ctx, args), r.trial(ctx, console, args), r.builtOperators(ctx, args))
		}, func() error {
			return errors.Join(r.release(ctx), r.volcano(ctx, args), r.descheduler(ctx, args), r.builtLibrary(ctx, args))
		}))
	}
	return errors.Join(r.trial(ctx, realNodes, append(slices.Clone(args), "-skip",
		strings.Join([]string{pinnedNode, claimedNode, gradedNodes}, "|"))),
		r.pinnedNodes(ctx, args))
}

// house has the rules of the repository.
const house = "github.com/tenon-numa/tenon/internal/house"

// interleavings are the tests of core/ledger that follow interleavings. Each uses one goroutine.
const interleavings = "^Test(Every|Random)Interleaving"

// light tests the packages that link neither a kubelet nor an API server. The packages that use several goroutines are
// tested under the race detector if this computer has it, without the interleavings, which are a step of their own.
func (r *runner) light(ctx context.Context, args []string) error {
	race, raceErr := r.raceDetector(ctx)
	r.say("listing packages")
	light, _, err := testPackages(ctx)
	if err != nil {
		return errors.Join(raceErr, err)
	}
	// verify has tested the rules of the repository.
	light = slices.DeleteFunc(light, func(p string) bool { return p == house })
	if !race {
		return errors.Join(raceErr, r.test(ctx, "light", false, args, light))
	}
	several, one := splitByGoroutines(light)
	return errors.Join(raceErr, r.test(ctx, "single-threaded", false, args, one),
		r.test(ctx, "light", true, append([]string{"-skip", interleavings}, args...), several))
}

// splitByGoroutines splits packages by whether their code or tests use several goroutines. The race detector finds
// nothing where there is one: in the packages of the core, but for two (internal/house, TestCoreUsesOneGoroutine).
func splitByGoroutines(packages []string) (several, one []string) {
	for _, p := range packages {
		name, isCore := strings.CutPrefix(p, "github.com/tenon-numa/tenon/core/")
		if isCore && name != "answers" && name != "ledger" {
			one = append(one, p)
		} else {
			several = append(several, p)
		}
	}
	return several, one
}

// heavy tests the packages that link k8s.io/kubernetes. With race it uses the race detector, and fails without one.
func (r *runner) heavy(ctx context.Context, args []string, race bool) error {
	if race {
		if can, err := r.raceDetector(ctx); !can {
			return errors.Join(err, errors.New("no race detector"))
		}
	}
	r.say("listing packages")
	_, heavy, err := testPackages(ctx)
	if err != nil {
		return err
	}
	return r.test(ctx, "heavy", race, args, heavy)
}

// release tests what makes images and the chart. That module is not part of the workspace.
func (r *runner) release(ctx context.Context) error {
	line := []string{"env", "GOWORK=off", "go", "-C", filepath.Join("tools", "release"), "test", "./..."}
	return r.program(ctx, io.Discard, "images and chart", line...)
}

// volcano builds Volcano's scheduler with the plugin, and tests the packages of that module, which is not part of the
// workspace. The result is never taken from the cache, because a test there builds programs itself.
func (r *runner) volcano(ctx context.Context, args []string) error {
	line := []string{"env", "GOWORK=off", "CGO_ENABLED=0", "go", "-C", "volcano"}
	return errors.Join(
		r.program(ctx, io.Discard, "program for Volcano", append(line, "build", "-o", os.DevNull, "./cmd/...")...),
		r.program(ctx, io.Discard, "plugin for Volcano",
			slices.Concat(line, []string{"test", "-count=1", "-timeout", "40m", "./..."}, args)...))
}

// chart installs, upgrades and removes the chart on an API server. It builds and reads files outside its package, so
// the result is never taken from the cache.
func (r *runner) chart(ctx context.Context, args []string) error {
	line := []string{"test", "-count=1", "-timeout", "20m", "-run", "^Test(Chart|Commands)$"}
	return r.step(ctx, "chart on an API server", append(append(line, args...), trials[installation])...)
}

// test runs the tests of some packages as one step.
func (r *runner) test(ctx context.Context, kind string, race bool, args, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	name := fmt.Sprintf("%d %s packages", len(packages), kind)
	line := []string{"test", "-timeout", "20m"}
	if r.installed {
		// go test cannot detect that a test which its cache has as skipped could run now.
		line = append(line, "-count=1")
	}
	if race {
		name += " under the race detector"
		line = append(line, "-race")
	}
	switch {
	case kind == "heavy" && race:
		// An API server ends if it does not start within half a minute, so only one starts at a time.
		line = append(line, "-p", "1")
	case kind == "heavy": // clusters wait most of the time
		line = append(line, "-p", strconv.Itoa(runtime.NumCPU()+1))
	}
	return r.step(ctx, name, slices.Concat(line, args, slowestFirst(packages))...)
}

// slowest are the packages whose tests take longest, without the module's path.
var slowest = []string{"lab/queue", "lab/scheduler", "lab/conformance/remote", "lab/chaos", "lab/groups", "lab/kubelet",
	"lab/conformance/live", "lab/coarse", "cmd/kubectl-tenon", "core/ledger", "test/vm/guest", "core/defrag",
	"face/console", "core/sim", "core/place"}

// slowestFirst returns the packages in the order in which go test begins them: a run then does not end with one slow
// package beside an idle CPU.
func slowestFirst(packages []string) []string {
	rank := func(p string) int {
		i := slices.IndexFunc(slowest, func(s string) bool { return strings.HasSuffix(p, "/"+s) })
		if i < 0 {
			return len(slowest)
		}
		return i
	}
	out := slices.Clone(packages)
	slices.SortStableFunc(out, func(a, b string) int { return rank(a) - rank(b) })
	return out
}

// raceDetector reports whether go test -race can be linked here: it needs cgo and a C compiler.
func (r *runner) raceDetector(ctx context.Context) (bool, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "CGO_ENABLED", "CC").Output()
	if err != nil {
		return false, fmt.Errorf("go env: %w", err)
	}
	why := lacking(strings.Split(string(out), "\n"), exec.LookPath)
	if why == "" {
		return true, nil
	}
	return false, r.reportNotRun("the race detector: %s", why)
}

// lacking returns what the race detector lacks, or "". It reads the two lines of go env CGO_ENABLED CC.
func lacking(env []string, look func(string) (string, error)) string {
	if len(env) < 2 || env[0] != "1" {
		return "CGO_ENABLED is not 1"
	}
	cc := strings.Fields(env[1])
	if len(cc) == 0 {
		return "go env CC is empty"
	}
	if _, err := look(cc[0]); err != nil {
		return "no C compiler " + cc[0] + " (on Debian: apt-get install gcc libc6-dev)"
	}
	return ""
}

// modules lists the folders of the workspace's modules, from the root: "." first, then "./core" and so on.
func modules(ctx context.Context) ([]string, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("list modules: %w", err)
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, fmt.Errorf("list modules: go list: %w", err)
	}
	var dirs []string
	for dir := range strings.Lines(string(out)) {
		rel, err := filepath.Rel(root, strings.TrimSpace(dir))
		if err != nil {
			return nil, fmt.Errorf("list modules: %w", err)
		}
		if rel != "." {
			rel = "./" + rel
		}
		dirs = append(dirs, rel)
	}
	return dirs, nil
}

// testPackages lists the packages of the workspace that have tests. The test programs of heavy ones link
// k8s.io/kubernetes, and the test programs of light ones do not. The packages in trials are in neither list.
func testPackages(ctx context.Context) (light, heavy []string, err error) {
	const format = `{{.ImportPath}}{{range .Deps}} {{.}}{{end}}`
	cmd := exec.CommandContext(ctx, "go", "list", "-test", "-f", format, "work")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	light, heavy = splitByKubernetes(string(out))
	trial := func(p string) bool { return slices.Contains(slices.Collect(maps.Values(trials)), p) }
	return slices.DeleteFunc(light, trial), slices.DeleteFunc(heavy, trial), nil
}

// splitByKubernetes reads lines that have a package and its dependencies each. It uses only the lines of test
// programs, which go list names PACKAGE.test.
func splitByKubernetes(list string) (light, heavy []string) {
	sc := bufio.NewScanner(strings.NewReader(list))
	sc.Buffer(nil, len(list)+1)
	for sc.Scan() {
		name, deps, _ := strings.Cut(sc.Text(), " ")
		pkg, isTest := strings.CutSuffix(name, ".test")
		switch {
		case !isTest:
		case strings.Contains(" "+deps, " k8s.io/kubernetes/"):
			heavy = append(heavy, pkg)
		default:
			light = append(light, pkg)
		}
	}
	return light, heavy
}
