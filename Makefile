# Two commands do all the set-up on a fresh machine: make run, make test.
GO            ?= go
BIN           := bin
GOLANGCI_LINT := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
BUF           := $(GO) run github.com/bufbuild/buf/cmd/buf@v1.75.0
GOFUMPT       := $(GO) run mvdan.cc/gofumpt@v0.12.0
# Programs that tests use where they are installed; make ci installs them.
PEERS         := curl openssl haproxy nginx libnginx-mod-stream varnish wrk zsh apache2-bin chromium-headless-shell squid nftables iproute2
# The race detector needs a C compiler; without one the tests run without it.
RACE          := $(if $(shell command -v gcc || command -v cc),-race)
FUZZTIME      ?= 5m
LAB           ?= examples/bigip.conf
# Flags of bin/bench, such as "-quick -only keepalive".
BENCH         ?=

.PHONY: all build run test test-peers bench lint fuzz proto ci help
all: build

build: ## build bin/bigpipe, bin/b, bin/mgmtd, bin/dataplane
	@mkdir -p $(BIN)
	$(GO) build -o $(BIN)/ ./cmd/bigpipe ./cmd/mgmtd ./cmd/dataplane
	@ln -sf bigpipe $(BIN)/b

run: build ## the lab: examples/bigip.conf on loopback, with demo members (LAB=FILE for another file)
	$(BIN)/bigpipe lab $(LAB)

test: ## all tests; needs only Go, what needs a peer program or root is skipped and named
	$(GO) vet ./...
	$(GO) test $(RACE) -timeout 540s ./...

lint: ## linters, formatting and the proto rules
	$(GOLANGCI_LINT) run ./...
	@test -z "$$($(GOFUMPT) -l $$(git ls-files '*.go' ':!*.pb.go'))" || { $(GOFUMPT) -l $$(git ls-files '*.go' ':!*.pb.go'); exit 1; }
	$(BUF) lint
	$(GO) mod tidy -diff

bench: build ## bigpipe, HAProxy and nginx in turns; report and plot in cmd/bench/results (BENCH="-quick -only close": printed only)
	$(GO) build -o $(BIN)/bench ./cmd/bench
	$(BIN)/bench $(or $(BENCH),-results cmd/bench/results)

test-peers: ## the tests against peer programs; a missing program is a failure
	BIGPIPE_NO_SKIP=1 $(GO) test $(RACE) -timeout 540s ./cmd/... ./dataplane/...

fuzz: ## every fuzz target for FUZZTIME (5m)
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "== $$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; \
	done

proto: ## generate Go from proto/
	$(BUF) generate

ci: ## what .ci/run calls: installs the packages, then a skipped test is a failure
	@if command -v apt-get >/dev/null; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(PEERS) >/dev/null; fi
	BIGPIPE_NO_SKIP=1 $(MAKE) test

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile
