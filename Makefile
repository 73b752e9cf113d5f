# Holdfast. `make` lists the targets.

GO       ?= go
BIN      := bin/holdfast
VERSION  ?= 0.1.0-dev
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS  := -s -w -buildid= -X main.version=$(VERSION) -X main.revision=$(REVISION)
# Tools have a module of their own, so that theirs are not the product's dependencies.
TOOL     := $(GO) tool -modfile=.ci/tools/go.mod
# The race detector needs a C compiler; a machine without one says so and goes on.
RACE     := $(shell command -v $${CC:-gcc} >/dev/null 2>&1 && echo -race)
# Packages in which goroutines share state.
RACY     := ./appliance ./appliance/admin ./appliance/certs ./appliance/engine ./appliance/ingest ./appliance/join ./bootstrap/identity ./bootstrap/jetstream

.DEFAULT_GOAL := help
.PHONY: help build run test test-unit test-race test-process test-system test-windows test-power test-cluster torture lint fmt golden cross packages tarballs msi bench bench-queue bench-cluster bench-recover bench-tune bench-peers clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

build: ## build bin/holdfast, static and reproducible
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/holdfast

run: build ## run a node on the built-in starter, data in ./holdfast-data
	@$(BIN) run

test: lint cross test-unit test-race test-process test-system test-windows test-power test-cluster ## everything that CI requires

test-unit: ## unit, golden, command line and engine tests
	$(TOOL) gotestsum --format pkgname -- -timeout 10m ./...

test-race: ## the packages that share state, under the race detector
ifeq ($(RACE),)
	@echo 'skipping: race detector (needs a C compiler)'
else
	# The transparency tests compare what clients see; ingest's own share what can race.
	$(TOOL) gotestsum --format pkgname --hide-summary=skipped -- $(RACE) -timeout 15m -skip '^TestTransparency' $(RACY)
endif

test-process: build ## the built binary: kill -9, full disk, two at once
	HOLDFAST_TEST_BINARY=$(CURDIR)/$(BIN) $(TOOL) gotestsum --format pkgname -- -tags process -timeout 25m -run '^TestProcess' ./cmd/holdfast

# What is tested is built by the tests, so that no result of before is good enough.
test-system: ## the packages in containers with a real systemd: install, upgrade, remove, faults
	$(TOOL) gotestsum --format testname --hide-summary=skipped -- -tags system -count 1 -timeout 20m ./packaging/systemtest

# The root file system with Wine is kept in the user's cache; without it, it is made.
test-windows: ## MSI, zip and service under Wine: install, upgrade, crash, remove
	$(TOOL) gotestsum --format testname --hide-summary=skipped -- -tags wine -count 1 -timeout 20m ./packaging/winetest

test-power: build bin/torture ## 60 power cuts: strict loses nothing, weaker modes do
	bin/torture -mode strict,strict-alone,encrypted,interval,stock -cuts 32,8,10,6,4 -holdfast $(BIN) -keep $(if $(HOLDFAST_TEST_SKIP_NOTHING),,-optional)

test-cluster: build bin/torture ## three nodes: killed, cut off, without power, one after the other; nothing is lost
	bin/torture cluster -mode strict,interval -rounds 1 -holdfast $(BIN) -timeout 12m $(if $(HOLDFAST_TEST_SKIP_NOTHING),,-optional)

torture: build bin/torture ## 500 power cuts of each mode, 50 rounds of three nodes; takes hours
	bin/torture cluster -mode strict,interval,stock-always -rounds 50,5,20 -holdfast $(BIN) -timeout 8h $(CLUSTER)
	bin/torture -mode strict,strict-alone,encrypted,interval,stock,stock-always -cuts 500 -holdfast $(BIN) -keep -timeout 12h

.PHONY: bin/torture
bin/torture:
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o $@ ./cmd/torture

lint: ## formatting, vet, linters
	@test -z "$$(gofmt -l appliance bootstrap cmd packaging systemd)" || { echo "not gofmt-clean:"; gofmt -l appliance bootstrap cmd packaging systemd; exit 1; }
	$(TOOL) golangci-lint run --build-tags process,system,wine ./...

cross: ## compile for the other platforms
	# As the packages are built, so that nothing is compiled twice.
	for arch in amd64 arm64; do \
	  GOOS=windows GOARCH=$$arch CGO_ENABLED=0 $(GO) build -trimpath -o /dev/null ./cmd/holdfast && \
	  GOOS=windows GOARCH=$$arch CGO_ENABLED=0 $(GO) vet -trimpath ./appliance/... ./bootstrap/... ./cmd/holdfast || exit 1; done
	GOOS=linux GOARCH=arm GOARM=7 CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/holdfast

fmt: ## format
	gofmt -w appliance bootstrap cmd packaging systemd

golden: ## rewrite golden files and generated pages after a change that is meant
	$(GO) test ./appliance/config ./appliance/engine ./bootstrap -update
	$(GO) test ./cmd/holdfast -run '^Test(Scripts|.*UpToDate)$$' -update
	# After the manual pages, which are in them.
	$(GO) test ./packaging -run '^Test.*(TheseFiles|Scripts|Postrm)$$' -update

packages: ## build dist/*.deb, *.rpm and *.tar.gz for Linux, with checksums
	$(GO) run ./packaging -version $(VERSION)

msi: ## build dist/*.msi and *.zip for Windows; signed with HOLDFAST_SIGN_CERT and _KEY, or MSI=-test-sign
	$(GO) run ./packaging -windows -version $(VERSION) $(MSI)

tarballs: ## build the tarballs alone
	$(GO) run ./packaging -version $(VERSION) -format tar

bench: build bench-queue ## figures beside a stock nats-server, Redis and RabbitMQ; takes hours
	$(GO) run ./cmd/bench -holdfast $(BIN)

bench-queue: build bench-peers ## the part with messages; BENCH='-pairs 6 -cells sync' for less
	$(GO) run ./cmd/bench queue -holdfast $(BIN) -json bin/queue.json -markdown bin/queue.md $(BENCH)

bench-cluster: build bench-peers ## three nodes beside three stock ones and RabbitMQ; root; BENCH='-times 6 -pairs 6' for less
	$(GO) run ./cmd/bench cluster -holdfast $(BIN) -json bin/cluster.json -markdown docs/benchmarks/cluster.md $(BENCH)

bench-recover: build ## a 10 GiB store after kill -9, beside reading its files; needs 25 GB of disk
	$(GO) run ./cmd/bench -holdfast $(BIN) -only recover -store 10240 -pairs 3 -within 20m $(BENCH)

bench-tune: build ## settings of the disk by turns, also those that make no difference; root; BENCH='-only scheduler'
	$(GO) run ./cmd/bench tune -holdfast $(BIN) -markdown bin/tune.md $(BENCH)

# Where they can't be installed, the table is without them, and says so.
bench-peers: ## install Redis and RabbitMQ (Debian, root); no service is started
	@.ci/peers || true

clean: ## remove what was built
	rm -rf bin dist
