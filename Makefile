# Fleet Rollout. Two commands need no other set-up: "make demo" and "make test".

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0-dev)
LDFLAGS := -s -w -X open-cluster-management.io/fleet-rollout/internal/version.stamp=$(VERSION)
IMAGE ?= fleet-rollout:$(VERSION)
CLUSTERS ?= 3

CONTROLLER_GEN := $(GO) tool -modfile=$(CURDIR)/hack/tools/go.mod controller-gen
GOLANGCI_LINT := $(GO) tool -modfile=$(CURDIR)/hack/tools/lint/go.mod golangci-lint

.DEFAULT_GOAL := help

##@ Use

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Bring up a real hub and three managed clusters, roll out, break, and see it go back. KEEP=1 leaves it up, DIR=… says where.
	$(GO) run ./test/demo

.PHONY: lab-build
lab-build: ## Build the lab's binaries: 15 to 20 minutes the first time on two cores, seconds later.
	$(GO) run ./test/lab/cmd/lab build

.PHONY: lab-up
lab-up: ## Bring up a lab of CLUSTERS managed clusters and leave it running.
	$(GO) run ./test/lab/cmd/lab up --clusters $(CLUSTERS)

.PHONY: lab-down
lab-down: ## Stop the lab and everything that belongs to it.
	$(GO) run ./test/lab/cmd/lab down

##@ Develop

.PHONY: generate
generate: ## Generate deep copies.
	$(CONTROLLER_GEN) object paths=./api/...

.PHONY: manifests
manifests: ## Generate the CRDs.
	$(CONTROLLER_GEN) crd:allowDangerousTypes=false paths=./api/... output:crd:dir=manifests/crds

.PHONY: fmt
fmt: ## Format the code.
	@gofmt -w $(shell git ls-files '*.go')

.PHONY: vet
vet: ## Run go vet.
	$(GO) vet ./...

.PHONY: lint
lint: vet ## Run go vet and golangci-lint (built from its module the first time).
	$(GOLANGCI_LINT) run ./...

.PHONY: build
build: ## Build the manager and the agent into bin/.
	$(GO) build -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

.PHONY: image
image: ## Build the container image of manager and agent (needs Docker).
	docker build --build-arg VERSION=$(VERSION) -t $(IMAGE) .

##@ Test

.PHONY: test
test: vet test-unit ## Run all tests: unit and simulation, a real API server, the real lab.
	@echo "two suites on a real API server and the one on the lab run at once, because they wait a lot; each is shown when it ends"
	$(MAKE) -j3 --output-sync=target --no-print-directory test-specs test-crash test-e2e

.PHONY: test-unit
test-unit: lab-build ## Run the tests of the packages, seeded simulation among them.
	$(GO) test -timeout 20m $(shell $(GO) list ./... | grep -v -e /test/integration -e /test/e2e)

.PHONY: test-integration
test-integration: lab-build ## Run the suites on a real API server; they play the agents.
	@echo "the specs that wait longest, and those that kill and freeze managers, run beside the others (make test-crash)"
	$(MAKE) -j2 --output-sync=target --no-print-directory test-specs test-crash

.PHONY: test-specs
test-specs: lab-build
	$(GO) test -count=1 -timeout 30m ./test/integration/... -ginkgo.label-filter='!slow'

.PHONY: fuzz
fuzz: ## Play thousands of random histories of the planner, then fuzz it, patches and renderings for a minute each.
	$(GO) test ./internal/rollout -run TestSimulationObeysTheLaws -v -timeout 60m -sim.rounds=5000
	$(GO) test ./internal/rollout -run '^$$' -fuzz FuzzNextAlwaysReturnsAPlan -fuzztime 60s
	$(GO) test ./pkg/content -run '^$$' -fuzz FuzzPatch -fuzztime 60s
	$(GO) test ./pkg/workbuilder -run '^$$' -fuzz FuzzRenderForACluster -fuzztime 60s

.PHONY: test-crash
test-crash: lab-build ## Kill the manager at each of its writes, freeze and thaw leaders.
	$(GO) test -count=1 -timeout 30m ./test/integration -ginkgo.label-filter=slow

.PHONY: test-e2e
test-e2e: lab-build ## Run the suite on real Kubernetes and real OCM.
	$(GO) test -count=1 -timeout 40m -v ./test/e2e/...

.PHONY: bench
bench: ## Run the benchmarks of the pure packages.
	$(GO) test -run '^$$' -bench . -benchmem ./internal/... ./pkg/...

.PHONY: bench-path
bench-path: lab-build ## Measure on the lab how fast a ready Deployment leads to the next ManifestWork.
	$(GO) test -run '^$$' -bench ReadyToNextWork -benchtime 20x -timeout 30m ./test/perf

.PHONY: verify
verify: generate manifests fmt ## Regenerate and require a clean tree.
	@git diff --exit-code || { echo "verify: generated files or formatting changed; commit the diff above"; exit 1; }
	@test -z "$$(git status --porcelain)" || { git status --short; echo "verify: the tree is not clean"; exit 1; }

.PHONY: clean
clean: ## Remove what make built here. The cache of the lab's binaries stays.
	rm -rf bin
