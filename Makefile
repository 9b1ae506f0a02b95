# Needs Go and a POSIX shell. Most targets are one go command that works without make.

N = 100000
S = 1
T = 10s
CHAOS = 1h

D = 2
REGISTRY = ghcr.io/tenon-numa
VERSION ?=
PROGRAMS =
RELEASE =
RELEASES = 1.30 1.31 1.32 1.33 1.34 1.35 1.36 1.37 1.36+PodLevelResourceManagers 1.37+PodLevelResourceManagers
PLATFORMS = linux/amd64,linux/arm64
export PROGRAMS REGISTRY VERSION

.PHONY: help demo up test test-node test-nri test-install test-console test-volcano scheduler test-release test-mixed storm-volcano test-doctor race model bench bench-core bench-plugin bench-growth bench-whole bench-console bench-attack bench-volcano bench-go bench-agent bench-docs diff releases records chaos fuzz generate tidy verify lint build images chart release push clean sim

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 17

demo: ## Show in a minute what Tenon is for, beside the default scheduler
	go run ./cmd/tenon-lab demo

up: ## Start a cluster in one process, for kubectl
	go run ./cmd/tenon-lab up

test: ## Run all tests
	go run ./test

test-node: ## Boot real nodes and try pods on them; those in OLDER with a kubelet of 1.33 (make test-node OLDER=two)
	go run ./test node $(if $(OLDER),-run TestRealNodes -older=$(OLDER))

test-nri: ## Boot a real node whose agent pins containers through containerd, and compare with the kernel
	go run ./test node -run TestPinnedNode

test-install: ## Boot a real node, and play on it what the quickstart says about a real cluster
	go run ./test install

test-console: ## Try the pages of the console in a real browser
	go run ./test console

test-volcano: ## Build Volcano's scheduler with the plugin, and try it on a lab cluster
	go run ./test volcano

test-doctor: ## Find what is wrong in lab clusters, change kubelets on ten of them, and on a real node with systemd (40 minutes)
	go test ./ops/doctor ./ops/bundle ./ops/rollout ./ops/apply
	go test ./cmd/kubectl-tenon -run 'TestTheDoctor|TestAPlan|TestKubeletsAreChanged' -v -timeout 1h -plan.clusters 10
	go run ./test install -run TestKubeletsUnderSystemd

scheduler: ## Build tenon-scheduler of RELEASE, 1.34 to 1.36, for older API servers, into dist (make scheduler RELEASE=1.35)
	tools/kubernetes/build $(or $(RELEASE),1.36) dist/tenon-scheduler-$(or $(RELEASE),1.36) ./cmd/tenon-scheduler

test-release: ## Run the tests of scheduler and lab with control plane and kubelets of RELEASE (make test-release RELEASE=1.35)
	tools/kubernetes/test $(or $(RELEASE),1.36)

test-mixed: ## Kubelets of four releases under one scheduler, upgraded one by one, and older schedulers (first 20 minutes)
	go test ./lab/scheduler -run "TestMixedReleases|TestOlderSchedulers" -v -count=1 -timeout 0 -mixed.releases 1.34,1.35,1.36

race: ## Run the heavy packages' tests under the race detector, one package after the other, on an idle machine
	go run ./test race

model: ## Follow every interleaving of three pods, two reports and a restart, to depth D
	go test ./core/ledger -run TestEveryInterleaving -model.depth $(D) -v -timeout 0

storm-volcano: ## Have 200 jobs of Volcano come and go with tenon and with numa-aware, and compare (6 minutes)
	cd volcano && GOWORK=off CGO_ENABLED=0 go test ./trial -run MixedGangs -v -count=1 -timeout 0 -jobs 200 -compare

bench: ## All measurements below, printed (50 minutes on two quiet CPUs)
	go run ./test/bench
	$(MAKE) bench-go bench-agent

bench-core: ## Measure the core beside a plain loop (2 minutes)
	go run ./test/bench -core

bench-plugin: ## Measure scheduling cycles beside two other schedulers (10 minutes; the first time 10 to build)
	go run ./test/bench -plugin

bench-growth: ## Measure how these grow with nodes and NUMA nodes (10 minutes)
	go run ./test/bench -growth

bench-whole: ## Measure the same schedulers on whole clusters (15 minutes)
	go run ./test/bench -whole

bench-console: ## Measure the console in a browser, with 5,000 nodes and 50,000 pods (2 minutes)
	go run ./test/bench -console

bench-attack: ## Measure how long others' pods wait while a hostile node or user attacks (15 minutes)
	go run ./test/bench/whole/run -nodes 100 -rounds 1 -only plain,tenon -attacks all -page ""

bench-volcano: ## Measure a session of Volcano's scheduler with numa-aware and with tenon, 5,000 tasks on 1,000 nodes (25 minutes)
	cd volcano && GOWORK=off CGO_ENABLED=0 go test ./plugin -run '^$$' -bench Session -benchtime 1x -timeout 0

bench-go: ## Run the Go benchmarks of core, a cycle beside plain kube-scheduler's, and place beside the kubelet's managers (8 minutes)
	go test -run '^$$' -bench . -benchmem ./core/...
	go test -run '^$$' -bench AgainstPlain -benchtime 60x ./scheduler/plugin
	go test -run '^$$' -bench AgainstTheKubelet -benchtime 100ms ./lab/kubelet

bench-agent: ## Measure what agents take of their nodes, and what they write (2 minutes)
	go test -run '^$$' -bench Resident -benchtime 50x ./cmd/tenon-agent
	go test -run '^$$' -bench Publish -benchtime 10x ./lab

bench-docs: ## Measure all but the last two, and write docs/performance.md, its charts and docs/scale.md (45 minutes)
	go run ./test/bench -docs

diff: ## Judge N admissions by the kubelet's own managers, of RELEASE, from seed S on (make diff N=1000000 S=1 RELEASE=1.32)
	go test ./lab/kubelet -run TestPlaceAgreesWithTheManagers -diff.n $(N) -diff.seed $(S) -diff.release '$(RELEASE)' -v -timeout 0

releases: ## The same for every release, with its scenarios (the first time each release builds for some minutes)
	@for r in $(RELEASES); do echo "release $$r"; \
		go test ./lab/kubelet -run 'TestPlaceAgreesWithTheManagers|TestScenarioFiles' -diff.n $(N) -diff.seed $(S) \
			-diff.release $$r -v -timeout 0 | grep -v '^ *--- PASS\|^=== ' || exit 1; \
	done

records: ## Have the judge of RELEASE, or of every release, answer what the test run compares with
	@for r in $(or $(RELEASE),$(RELEASES)); do echo "release $$r"; \
		go test ./lab/kubelet -run TestRecord -diff.release $$r -diff.record -timeout 0 || exit 1; \
	done

sim: ## Compare schedulers on simulated machines, and write docs/packing.md and its picture anew
	go run ./cmd/kubectl-tenon compare --trace all --runs 3 --cases 200 --page docs/packing.md

chaos: ## Let everything happen to a lab cluster for CHAOS, from seed S (make chaos CHAOS=10m S=7)
	go test ./lab/chaos -run TestChaos -chaos.for $(CHAOS) -chaos.seed $(S) -v -timeout 0

fuzz: ## Run every fuzz target for T (make fuzz T=1m)
	@find . -name '*_test.go' -exec grep -H '^func Fuzz' {} + | sort | \
	sed 's|^\(.*\)/[^/]*:func \(Fuzz[A-Za-z0-9_]*\).*|\1 \2|' | while read -r dir name; do \
		echo "fuzz $$dir $$name for $(T)"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(T) "$$dir" || exit 1; \
	done

tidy: ## Write go.mod and go.sum of every module of the workspace anew
	tools/tidy

generate: ## Write generated code, the custom resource definition, and what is made of the chart anew
	go generate ./api/...
	tools/release/run chart

verify: ## Fail if generated files are not current, or a rule of the repository is broken
	go run ./test verify

lint: ## Run the linters (the first time some minutes to build them)
	go run ./test lint

images: ## Build the images of PROGRAMS into dist/images, for PLATFORMS (the first time 20 minutes)
	tools/release/run images -programs "$$PROGRAMS" -platforms $(PLATFORMS) -version "$$VERSION"

chart: ## Write the package of the Helm chart into dist
	tools/release/run package -version "$$VERSION"

release: ## Write everything that a release's page has into dist (make release VERSION=v0.2.0)
	tools/release/run release -version "$$VERSION"

push: images chart ## Send images and chart to REGISTRY (make push REGISTRY=localhost:5000/tenon)
	tools/release/run push -programs "$$PROGRAMS" -registry "$$REGISTRY" -version "$$VERSION"

build: ## Build all programs into bin/
	go build -o bin/ ./cmd/...

clean: ## Remove bin/ and dist/
	rm -rf bin dist
