# Needs Go and a POSIX shell. Most targets are one go command that works without make.

# Parameters. Each target's help names those that it has.
N = 100000
S = 1
T = 10s
CHAOS = 1h
GANGS = 600
JOBS = 300
CLUSTERS = 15000
PLANS = 100
LAYER =
LEVEL = safe
SCHEDULER = tenon
ONLY =
WORKLOADS =
RECORD =
RELEASE =
REGISTRY = ghcr.io/tenon-numa
VERSION ?=
PROGRAMS =
PLATFORMS = linux/amd64,linux/arm64
export PROGRAMS REGISTRY VERSION

# The releases of kubelets whose managers judge, with gates of a release after a plus.
judges = 1.30 1.31 1.32 1.33 1.34 1.35 1.36 1.37 1.36+PodLevelResourceManagers 1.37+PodLevelResourceManagers
judged = $(if $(filter all,$(RELEASE)),$(judges),$(or $(RELEASE),$(if $(RECORD),$(judges),'')))

# The layers that test/bench does not measure.
bench-attack = go run ./test/bench/whole/run -nodes 100 -rounds 1 -only plain,tenon -attacks all -page ""
bench-trace = go run ./test/bench/whole/run -trace -nodes $(or $(NODES),100) -pods 600 -rounds 1 -only plain,tenon
bench-upstream = go run ./test/bench/upstream/run $(if $(WORKLOADS),-only $(WORKLOADS))
bench-volcano = cd volcano && GOWORK=off CGO_ENABLED=0 \
	go test ./plugin -run '^$$' -bench Session -benchtime 1x -timeout 0
bench-gangs = cd volcano && GOWORK=off CGO_ENABLED=0 \
	go test ./trial -run MixedGangs -v -count=1 -timeout 0 -jobs 200 -compare
bench-go = go test -run '^$$' -bench . -benchmem ./core/... && \
	go test -run '^$$' -bench AgainstPlain -benchtime 60x ./scheduler/plugin && \
	go test -run '^$$' -bench AgainstTheKubelet -benchtime 100ms ./lab/kubelet
bench-claims = go test -run '^$$' -bench Cycle -benchtime 200x ./scheduler/steer
bench-requests = go test -run '^$$' -bench BesideRequests -benchtime 12x -timeout 0 ./scheduler/plugin
bench-agent = go test -run '^$$' -bench Resident -benchtime 50x ./cmd/tenon-agent && \
	go test -run '^$$' -bench Publish -benchtime 10x ./lab
bench-packing = go run ./cmd/kubectl-tenon compare --trace all --runs 3 --cases 200 --page docs/packing.md && \
	go run ./cmd/kubectl-tenon compare --trace gpu --summary README.md

# What images and chart have in common.
made = -registry "$$REGISTRY" -version "$$VERSION" $(if $(RELEASE),-kubernetes $(RELEASE))

# Exit code 1 only means that the level is missed. The exit code of "go run" does not tell that.
graded = kube-scheduler kube-scheduler-packed tenon tenon-strict NodeResourceTopologyMatch volcano volcano-tenon
grader = bin/tenon-conformance$(if $(RELEASE),-$(RELEASE))
conformance-scores = for s in $(graded); do \
	$(grader) --scheduler $$s --page docs/reference/conformance.md || [ $$? = 1 ] || exit 1; done

.PHONY: help demo conformance test lint verify generate build bench diff test-dra test-groups test-queue test-room chaos fuzz pictures images chart release push

##@ Begin:

help: ## List the targets, by what they are for
	@sed -n 's/^##@ \(.*\)/\n\1/p; s/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p; s/^## /  \t/p' Makefile | expand -t 12

demo: ## Show in a minute what Tenon is for, beside kube-scheduler
	go run ./try

build: ## Build all programs into bin, or tenon-scheduler of RELEASE, for older API servers,
## into dist (make build RELEASE=1.35)
	$(if $(RELEASE),tools/kubernetes/build $(RELEASE) dist/tenon-scheduler-$(RELEASE) ./cmd/tenon-scheduler, \
		go build -o bin/ ./cmd/...)

##@ Before each commit:

test: ## Run all tests, or the part that ONLY names (make test ONLY=console)
## (go run ./test -h lists the parts), or what has control plane and kubelets of RELEASE,
## 1.34 to 1.36 (make test RELEASE=1.35)
	$(if $(RELEASE),tools/kubernetes/test $(RELEASE),go run ./test $(ONLY))

verify: ## Fail if generated files are not current, or a rule of the repository is broken
	go run ./test verify

lint: ## Run the linters (the first time some minutes to build them)
	go run ./test lint

generate: ## Write generated code, the custom resource definition, and what is made of the
## chart anew
	go generate ./api/...
	tools/release/run chart

##@ Long tests:

diff: ## Judge N admissions by the kubelet's own managers, of RELEASE, from seed S on
## (make diff N=1000000 S=1 RELEASE=1.32); with RELEASE=all by those of every release,
## with their scenarios (the first time each builds for some minutes). With RECORD=yes
## they answer what the test run compares with.
	@for r in $(judged); do echo "release $${r:-that is linked}"; \
		$(if $(RECORD),go test ./lab/kubelet -run TestRecord -diff.release "$$r" -diff.record -timeout 0, \
		go test ./lab/kubelet -run TestPlaceAgreesWithTheManagers -diff.n $(N) -diff.seed $(S) -diff.release "$$r" \
			-v -timeout 0 $(if $(filter all,$(RELEASE)), && \
		go test ./lab/kubelet -run TestScenarioFiles -diff.release "$$r" -timeout 0)) || exit 1; \
	done

test-dra: ## Let an exhaustive search judge the devices of N pods with claims, and
## run pods with claims on the lab's kubelets (make test-dra N=1000000)
	go test ./scheduler/steer -count=1 -timeout 0 -claims.n $(N) -v -run TestDevicesAreAligned
	go test ./lab/scheduler -count=1 -v -run Claims

test-groups: ## Run GANGS gangs on the lab's kubelets, with Tenon and without, gangs of Kueue,
## JobSet and LeaderWorkerSet, and 100,000 in memory (make test-groups GANGS=2000)
	go test ./core/ledger -count=1 -v -run TestACrowdOfGangs -gangs.n 100000
	go test ./lab/groups -count=1 -v -timeout 0 -groups $(GANGS)
	go run ./test operators

test-queue: ## Run JOBS jobs through Kueue by quota alone, and with Tenon's admission check, also
## beside other pods, on the lab's kubelets (make test-queue JOBS=30; builds at first)
	go test ./lab/queue -count=1 -v
	go run ./test operators -run TestKueue -queue.jobs $(JOBS)

test-room: ## Compare plans that move pods with all others, in CLUSTERS small clusters, and carry
## out PLANS of them on the lab's kubelets (make test-room CLUSTERS=50000 PLANS=200)
	go test ./core/defrag -count=1 -v -timeout 0 -args -defrag.n $(CLUSTERS)
	go test ./lab/queue -count=1 -v -timeout 0 -run 'Plans|LeftAsBudgets' -args -moves.n $(PLANS)

conformance: ## Grade SCHEDULER about NUMA nodes, and fail if it misses LEVEL, safe to exact
## (make conformance SCHEDULER=volcano LEVEL=live RELEASE=1.36); with SCHEDULER=all write
## the scores of all that the program has into docs/reference/conformance.md (40 minutes)
	$(if $(RELEASE),tools/kubernetes/build $(RELEASE) $(grader) ./cmd/tenon-conformance, \
		go build -o bin/ ./cmd/tenon-conformance)
	$(if $(filter all,$(SCHEDULER)),$(conformance-scores), \
		$(grader) --scheduler $(SCHEDULER) --level $(LEVEL))

chaos: ## Let everything happen to a lab cluster for CHAOS, from seed S (make chaos CHAOS=10m S=7)
	go test ./lab/chaos -run TestChaos -chaos.for $(CHAOS) -chaos.seed $(S) -v -timeout 0

fuzz: ## Run every fuzz target for T (make fuzz T=1m)
	@find . -name '*_test.go' -exec grep -H '^func Fuzz' {} + | sort | \
	sed 's|^\(.*\)/[^/]*:func \(Fuzz[A-Za-z0-9_]*\).*|\1 \2|' | while read -r dir name; do \
		echo "fuzz $$dir $$name for $(T)"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(T) "$$dir" || exit 1; \
	done

##@ Measurements:

bench: ## Measure LAYER (make bench LAYER=core), or all from core to agent (50 minutes):
## core      the core beside a plain loop (2 minutes)
## plugin    scheduling cycles beside two other schedulers (10 minutes; first 10 to build)
## growth    how these grow with nodes and NUMA nodes (10 minutes)
## whole     the same schedulers on whole clusters (15 minutes)
## console   the console in a browser, with 5,000 nodes and 50,000 pods (2 minutes)
## scale     what nodes write to an API server
## go        the core, a cycle beside kube-scheduler's, place (8 minutes)
## agent     what agents take of their nodes, and what they write (2 minutes)
## docs      all from core to scale, into docs/performance.md, docs/scale.md (45 minutes)
## claims    devices for claims, on 500 and 5,000 nodes, beside kube-scheduler's plugin
## requests  cycles of other pods while ProvisioningRequests wait (8 minutes)
## attack    how long others' pods wait while a node or user attacks (15 minutes)
## trace     where the time of each of 600 pods goes, on NODES nodes (2 minutes)
## upstream  kube-scheduler's own benchmark (10 minutes; WORKLOADS=all takes 1 hour)
## volcano   a session of Volcano's scheduler, 5,000 tasks on 1,000 nodes (25 minutes)
## gangs     200 jobs of Volcano that come and go, two plugins (6 minutes)
## packing   simulated machines, into docs/packing.md, its picture and README.md
	$(if $(LAYER),$(or $(bench-$(LAYER)),go run ./test/bench -$(LAYER)), \
		go run ./test/bench && $(bench-go) && $(bench-agent))

##@ A release:

pictures: ## Make the README's pictures of the console anew (2 minutes; needs chromium)
	go test -count=1 -tags picture ./test/console -run TestPictures -args -pictures $(CURDIR)/docs

images: ## Build the images of PROGRAMS into dist/images, for PLATFORMS and API servers of RELEASE
## (make images RELEASE=1.35; the first time 20 minutes)
	tools/release/run images -programs "$$PROGRAMS" -platforms $(PLATFORMS) $(made)

chart: ## Write the Helm chart and a kustomization into dist, both with the images of REGISTRY
	tools/release/run package $(made)

release: ## Write everything that a release's page has into dist (make release VERSION=v0.2.0)
	tools/release/run release -version "$$VERSION"

push: images chart ## Send images and chart to REGISTRY (make push REGISTRY=localhost:5000/tenon)
	tools/release/run push -programs "$$PROGRAMS" $(made)
