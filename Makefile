# Three commands matter to a newcomer: `make run`, `make check` and `make test`.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Tests and the program are built with the same setting, so that each package is
# compiled only once. Only the race detector needs cgo; RACE turns it on.
export CGO_ENABLED := 0

# The compiler ends before it needs to collect garbage, which would take a tenth
# of its processor time; the limit is for packages as large as SQLite. -toolexec
# sets this for the compiler, but not for tests. Nothing that is compiled has
# debugging information, whose generation takes another tenth; stack traces and
# profiles do not need it. For a debugger, run go build without make.
GOFLAGS := $(shell go env GOFLAGS)
ifeq ($(findstring toolexec,$(GOFLAGS)),)
GOFLAGS += '-toolexec=env GOGC=off GOMEMLIMIT=1GiB' -gcflags=all=-dwarf=false
endif
export GOFLAGS

ARGS ?=
AGENT ?=
FUZZTIME ?= 30s
# The flags for tests with the race detector. It leaves out SQLite, which is C
# translated to Go: a connection of SQLite is used by one goroutine at a time,
# and the race detector would make SQLite three times as slow.
RACE := CGO_ENABLED=1 -race -gcflags=all=-dwarf=false '-gcflags=modernc.org/sqlite/lib=-dwarf=false -race=false'
UI_SOURCES = $(shell find ui -type f -not -path '*/node_modules/*' -not -path 'ui/dist/*' -not -path 'ui/test-results/*')
UI_READY := ui/node_modules/.ready
SUPERVISOR := internal/supervisor/bin/supervise_$(shell go env GOARCH)
AGENTS_READY := test/agents/node_modules/.ready
PEERS_READY := bench/peers/node_modules/.ready
CLIENT_READY := test/clients/typescript/node_modules/.ready
OPENAPI_READY := tools/openapi/node_modules/.ready
LINT := go tool -modfile=tools/go.mod golangci-lint

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build ## build everything, start the server and print the link to the page
	@exec bin/runnel serve --prewarm 1 $(ARGS)

.PHONY: build
build: ui $(SUPERVISOR) ## build the page and bin/runnel
	@echo "building bin/runnel"
	@go build -o bin/runnel ./cmd/runnel

# The supervisor as a program of its own, for Linux. It is embedded in the
# binary, because it needs less memory than the whole binary running as a
# supervisor.
$(SUPERVISOR): go.mod $(shell find $$(go list -deps -tags supervise -f '{{if and .Module .Module.Main}}{{.Dir}}{{end}}' ./cmd/supervise) -name '*.go' -not -name '*_test.go')
	@GOOS=linux go build -tags supervise -trimpath -buildvcs=false -gcflags=all=-dwarf=false -ldflags '-s -w' -o $@ ./cmd/supervise

.PHONY: ui
ui: ui/dist/index.html ## build the page, if it changed

ui/dist/index.html: $(UI_READY) $(UI_SOURCES)
	@echo "building the page"
	@npm run --silent --prefix ui build
	@touch $@

$(UI_READY): ui/package.json ui/package-lock.json
	@echo "installing what the page is built with"
	@npm ci --prefix ui --no-fund --no-audit
	@touch $@

$(AGENTS_READY): test/agents/package.json test/agents/package-lock.json
	@echo "installing the agents that the tests drive"
	@npm ci --prefix test/agents --no-fund --no-audit
	@touch $@

$(PEERS_READY): bench/peers/package.json bench/peers/package-lock.json
	@echo "installing what the benchmark runs beside Runnel"
	@npm install --no-save --prefix bench/peers --no-fund --no-audit
	@touch $@

$(CLIENT_READY): test/clients/typescript/package.json test/clients/typescript/package-lock.json
	@echo "installing what the TypeScript client of the tests needs"
	@npm ci --prefix test/clients/typescript --no-fund --no-audit
	@touch $@

$(OPENAPI_READY): tools/openapi/package.json tools/openapi/package-lock.json
	@echo "installing the tools for the API's document"
	@npm ci --prefix tools/openapi --no-fund --no-audit
	@touch $@

# The flag and the environment variables that tests use:
#   go test -short             shortens long tests and skips real agents
#   RUNNEL_SKIP_REAL_AGENTS=1  skips every test that drives a real agent
#   RUNNEL_AGENTS=codex,qwen   drives only these agents
#   RUNNEL_BIN=PATH            tests the program at this absolute path; without
#                              it, packages that test a program build one
#   RUNNEL_LONG=1              repeats rare cases often and runs tests that are
#                              too long for each commit

# The packages whose tests drive real agents. make test runs them without the
# race detector: the concurrent code in them is the session, its connection and
# the supervisor, and the tests of those packages run with it. make test-long
# runs these packages with the race detector, too. Two packages run at a time,
# so the package that takes longest comes first.
DRIVERS := ./provider/acp ./provider/claude ./provider/codex ./cmd/runnel ./internal/realagents
# The packages that test the built program. Their results are not cached,
# because go test does not notice when that program changes.
# The longest come first, because go test begins in this order.
BINARY := ./test/hostile ./test/e2e ./test/kill ./test/guardrails ./test/conformance ./test/extract ./test/clients ./test/remote ./test/docs
# Tests of test/e2e that do not depend on TLS: they are about the server and its
# agent, which do not use TLS between them. make test runs test/e2e a second
# time with TLS between client and server, without these tests and with one
# agent. make test-long runs everything with TLS.
WITHOUT_TLS := ^Test(Failures|Profile|StoredRules|LoadAgain|APIKey|AgentLogin|LoginThatIsGone|OptionsOfATurn|ModeOfATurn|Governed|Terminal|ConversationInA|ClaudeInATerminal|CommandsPrint|MCP|Image)
# $(call named,NAMES): the regular expression for the tests Test…, with these
# names after Test.
space := $(subst ,, )
named = ^Test($(subst $(space),|,$(strip $1)))$$
# The packages that make test runs without the race detector, because nothing in
# them runs concurrently: pure functions (event, upsert, rules, text), tables and
# generated text (provider/all, agentdoc, archtest, ui), type checks (crosscheck),
# code that starts a program or reads files and waits (sandbox, gitconfig, profile),
# helpers of tests (providertest, recordtest, agentrig), and gateways that load one
# conversation after another (recordings).
SEQUENTIAL := ./event ./gateway/exported ./gateway/policy ./httpapi/browser ./httpapi/command ./httpapi/reply \
	./internal/agentdoc ./internal/agentrig ./internal/agentsnewest ./internal/archtest ./internal/crosscheck \
	./internal/filediff ./internal/gitconfig ./internal/jsonl ./internal/jsonscan ./internal/livescreen \
	./internal/nofollow ./internal/private ./internal/procinfo ./internal/publicip ./internal/recordtest ./internal/sandbox \
	./internal/sqliteread ./internal/subpath ./internal/termtext ./internal/testload ./internal/text \
	./internal/translate ./internal/turnview ./pictures ./profile ./provider/all ./provider/providertest ./rules \
	./test/recordings ./ui ./universal ./upsert
# The packages of which many tests run nothing concurrently, such as those that
# start git, and those of the data that is on disk after a failure. make test runs
# all of their tests without the race detector, and with it only these.
PARTLY := ./store/sqlite ./changes ./files ./internal/redact
AT_ONCE := RepositoryThatMakesGitWaitDelaysNoOther StatusChecksLargeRepositoryWithinLimits ReviewStageCommitAndRevert \
	ManyRequestsCompleteAtOnce ReadWaitsWhileOtherFilesAreRead AddedValuesAreCompiledForTheNextText \
	AHundredWritersAppend BackupWhileWritingHoldsEverythingAcknowledged Catalogue CloseFinishesDeletions \
	CompactedLater Compaction ContextEnded ContextEndedTooLate DeletedSessionIsErasedBehindReaders \
	DeliverPassesEventsToWaitingReaders Durable GrownOfMany Log_SmallTails SearchAddsItemsOnce \
	ShownEventsReachTheDatabaseWithinASecond SubscribeWhileAppendingMissesNothing \
	SubscribeWhileAppendingMissesNothingBeyondTheTail TailKeepsItsPositionsWhenTheLogIsLookedUpMeanwhile \
	TailsBounded
# The packages that make test runs both with and without the race detector: with
# it, their tests are the short ones.
TWICE := ./test/sim
# Tests that measure memory. The race detector takes memory of its own, so they
# skip themselves with it, and make test runs them without it, in processes of
# their own, because other tests leave memory behind.
MEMORY := UnreadSubscriptionHoldsAtMost64KB SupervisorNeedsLittleMemory
MEASURED := ./httpapi ./internal/supervisor
# Further tests that make test runs only without the race detector, of packages
# whose other tests run with it. They take long with it, because they start git,
# compute, or repeat requests one after another. Shorter tests run the same
# concurrent code with the race detector.
UNRACED := SlowReaderReceivesEverything RefusedTurnLeavesTheSessionUnchanged RetentionPreviewExaminesFiftyWorktrees \
	RetentionNamesAndRemovesWorktrees UnreadAnswersAreBounded LongDiffsAreBounded CompactedLog \
	ClosedTypesHaveTheValuesOfTheirConstants ListsOfARequestHaveALimit RequestsAreStrictAndAnswersOpen \
	EveryCutOfSSE EveryCutOfWebSocketEvents DeletionOfSessionLosesNoWork HooksOfWorktree \
	WorktreeIsMergedAndDiscardedOnlyAsSeen GitRoutes DocumentNeedsNoCredential AgentSelfApprove \
	StalledClientHoldsLittle TurnOfTooManyShortPiecesIsNotTakenOver TailRedactsWholeSecrets TailKeepsTheEnd \
	ArrivingWebSocketMessagesAreBounded WorktreeOfSession JSONStrict WorktreeAnswerIsBounded \
	EveryCutOfWebSocketAppends EveryCutOfWebSocketUpserts WorktreeAfterRestart DocumentIsCommitted \
	DocumentHasTheFieldsThatRequestsTake DocumentHasTheRoutesOfTheRouter DocumentOfContradictingTypesIsAnError \
	ReadmeNamesRoutesThatExist
UNRACED_IN := ./httpapi ./internal/proc ./internal/supervisor
# The packages that make test runs with the race detector: all others. The longest
# come first.
CONCURRENT = ./httpapi $(shell go list ./... | grep -vxF "$$(go list $(DRIVERS) $(BINARY) $(SEQUENTIAL) $(PARTLY) $(TWICE))")

.PHONY: check
# go test also runs vet, which takes the processor while tests wait.
check: formatted $(SUPERVISOR) ## the quick tests: no Node, network, real agents or race detector; run it first
	@.ci/gotest -vet=all -short -p 4 -- ./...

.PHONY: formatted
formatted:
	gofmt -l $$(git ls-files '*.go') | awk '{print "not formatted: " $$0; bad=1} END {exit bad}'

.PHONY: vet
vet: formatted
	go vet ./...

.PHONY: test
# Three targets run at a time, because most of them also wait. test-vet and
# test-race need no agents, so they run while npm installs the agents.
test: ## run everything that a commit must pass; installs what that needs
	@.ci/tiers $(subst $(eval) ,+,$(strip $(TIERS)))

# The targets of make test, in the order in which they start. A target that
# compiles Go starts after test-build, because it embeds what test-build writes.
# The shortest come last, so that both places end at about the same time.
TIERS := test-build test-install test-vet:test-build test-ui:test-build:test-install test-race:test-build \
	test-agents:test-build:test-install test-hostile:test-build test-binary:test-build:test-install \
	test-unit:test-build test-binary-tls:test-build:test-install test-gate:test-build

# Builds and installs what the later targets of make test need. Each of those
# targets also does that itself, for the case that it runs alone.
.PHONY: test-build
test-build: build

.PHONY: test-install
test-install: $(AGENTS_READY) $(CLIENT_READY)
	@.ci/need cc chromium curl jq
	@.ci/need chromium-headless-shell || echo "the tests in a browser will take more processor time"
	@.ci/need bwrap nginx caddy || echo "the tests of sandboxes and reverse proxies will be skipped"

.PHONY: test-vet
test-vet: vet
	go run ./internal/crosscheck darwin windows

.PHONY: test-unit
test-unit: $(SUPERVISOR)
	@.ci/need bwrap || echo "the tests of sandboxes will be skipped"
	@.ci/gotest -timeout 30m -p 4 -- $(PARTLY) $(SEQUENTIAL) $(TWICE)
	@.ci/gotest -run '$(call named,$(UNRACED))' -timeout 30m -- $(UNRACED_IN)
	@.ci/gotest -run '$(call named,$(MEMORY))' -timeout 30m -- $(MEASURED)

.PHONY: test-race
test-race: $(SUPERVISOR)
	@.ci/need cc
	@.ci/need bwrap || echo "the tests of sandboxes will be skipped"
	@.ci/gotest $(RACE) -skip '$(call named,$(UNRACED))' -timeout 30m -p 3 -- $(CONCURRENT)
	@.ci/gotest $(RACE) -short -timeout 30m -- $(TWICE)
	@.ci/gotest $(RACE) -short -run '$(call named,$(AT_ONCE))' -timeout 30m -p 3 -- $(PARTLY)

.PHONY: test-agents
test-agents: $(SUPERVISOR) $(AGENTS_READY)
	@.ci/gotest -timeout 30m -count 1 -p 2 -- $(DRIVERS)

.PHONY: test-binary
test-binary: build $(AGENTS_READY) $(CLIENT_READY)
	@.ci/need curl jq
	@.ci/need nginx caddy || echo "the tests of reverse proxies will be skipped"
	@.ci/need bwrap || echo "the tests of sandboxes will be skipped"
	@.ci/gotest RUNNEL_BIN=$(CURDIR)/bin/runnel -timeout 30m -count 1 -p 2 -parallel 4 -- $(filter-out ./test/hostile,$(BINARY))

.PHONY: test-hostile
test-hostile: build
	@.ci/gotest RUNNEL_BIN=$(CURDIR)/bin/runnel -timeout 30m -count 1 -- ./test/hostile

.PHONY: test-binary-tls
test-binary-tls: build $(AGENTS_READY)
	@.ci/need curl jq
	@.ci/gotest RUNNEL_BIN=$(CURDIR)/bin/runnel RUNNEL_TLS=1 RUNNEL_AGENTS=claude-code -skip '$(WITHOUT_TLS)' -timeout 30m -count 1 -parallel 4 -- ./test/e2e

.PHONY: test-ui
test-ui: build $(AGENTS_READY) ## run the tests of the page, in a real browser too, also with real agents
	@.ci/need chromium
	@# test:built leaves out the type checks, which build has run.
	@.ci/npmtest test:built
	@.ci/npmtest RUNNEL_BIN=$(CURDIR)/bin/runnel test:browser
	@.ci/gotest RUNNEL_BROWSER=1 RUNNEL_BIN=$(CURDIR)/bin/runnel -timeout 30m -count 1 -run WorkWithRealAgentsInABrowser -- ./test/e2e

.PHONY: screenshots
screenshots: build ## picture every state of the page, in two sizes, light and dark, in ui/test-results/screenshots
	@.ci/need chromium
	@RUNNEL_BIN=$(CURDIR)/bin/runnel npm run --silent --prefix ui screenshots

.PHONY: agents
agents: ui $(SUPERVISOR) $(AGENTS_READY) ## run the tests with real agents; AGENT=codex,qwen selects some
	@.ci/gotest RUNNEL_AGENTS=$(AGENT) -timeout 30m -count 1 -p 2 -parallel 4 -- $(DRIVERS) $(filter-out ./test/hostile ./test/conformance ./test/extract ./test/clients ./test/remote ./test/docs,$(BINARY))

.PHONY: test-long
test-long: ## what is too long for a commit: rare moments often, a soak of an hour, everything twice with the race detector, fuzzing (hours)
	@FUZZTIME=60s .ci/tiers test-cross test-repeat test-tls test-race-all test-bench fuzz

# Compiles every package for macOS and Windows. Optimisation is off, because the
# result is never run.
.PHONY: test-cross
test-cross:
	GOOS=darwin go build -gcflags='all=-N -l' ./...
	GOOS=windows go build -gcflags='all=-N -l' ./...

.PHONY: test-repeat
test-repeat: ui $(SUPERVISOR) $(AGENTS_READY) $(CLIENT_READY)
	@.ci/gotest RUNNEL_LONG=1 -timeout 6h -count 1 -p 1 -- ./...

.PHONY: test-tls
test-tls: build $(AGENTS_READY)
	@.ci/need curl jq
	@.ci/gotest RUNNEL_BIN=$(CURDIR)/bin/runnel RUNNEL_TLS=1 -timeout 30m -count 1 -parallel 4 -- ./test/e2e

.PHONY: test-race-all
test-race-all: ui $(SUPERVISOR) $(AGENTS_READY) $(CLIENT_READY)
	@.ci/need cc
	@.ci/gotest $(RACE) -timeout 60m -p 1 -count 2 -- ./...

.PHONY: fuzz
fuzz: ## fuzz every parser for FUZZTIME each (default 30s)
	@go list -f '{{.Dir}}' ./... | while read -r dir; do \
		{ grep -hos '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go || true; } | sed 's/^func //' | while read -r name; do \
			echo "$$name in $${dir#$$PWD/}"; \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$dir" </dev/null; \
		done; \
	done

.PHONY: lint
lint: ## run the linters of .golangci.yml (the first time builds them: two minutes)
	$(LINT) run ./...
	cd bench && go tool -modfile=../tools/go.mod golangci-lint run ./...

.PHONY: lint-api
lint-api: $(OPENAPI_READY) ## check docs/openapi.json with the linters of OpenAPI documents
	@REDOCLY_SUPPRESS_UPDATE_NOTICE=true npm run --silent --prefix tools/openapi lint

.PHONY: bench
bench: build $(AGENTS_READY) $(PEERS_READY) ## measure everything beside its peers and write bench/RESULTS.md (half an hour)
	go -C bench run . -runnel ../bin/runnel -o RESULTS.md

# RATIOS=1 measures everything, as make bench does, and also compares ratios.
RATIOS ?=
.PHONY: bench-gate
bench-gate: build $(if $(RATIOS),$(AGENTS_READY) $(PEERS_READY)) ## fail if an event costs more allocations, writes or system calls than bench/RESULTS.json says; RATIOS=1 compares ratios too
	go -C bench run . -gate $(if $(RATIOS),-ratios) -runnel ../bin/runnel -o RESULTS.md

.PHONY: bench-renew
bench-renew: build ## measure what bench-gate compares again, and write it into bench/RESULTS.json and RESULTS.md
	go -C bench run . -only counts -renew -runnel ../bin/runnel -o RESULTS.md

# The tests of the measurements that need no agents, and the gate without ratios.
.PHONY: test-gate
test-gate: bench-gate
	go -C bench test -vet=off -ldflags=-w -short ./... # make test-bench runs vet

.PHONY: test-bench
test-bench: ui $(SUPERVISOR) $(AGENTS_READY) ## vet and test the measurements, which are a Go module of their own
	cd bench && go vet ./... && GOOS=darwin go build ./... && GOOS=windows go build ./...
	go -C bench test -timeout 15m ./...

.PHONY: record
record: $(SUPERVISOR) $(AGENTS_READY) ## record testdata anew with the real agents; AGENT=codex,qwen selects some; read the diff before you commit it
	@.ci/gotest RUNNEL_AGENTS=$(AGENT) -timeout 60m -count 1 -p 1 -run '^TestRecord(Terminal|Stored)?$$' -- \
		$$(grep -rl 'flag.Bool("record"' --include='*_test.go' provider | xargs -n 1 dirname | sort -u | sed 's|^|./|') -record

.PHONY: agents-newest
agents-newest: $(SUPERVISOR) ## install the newest agents beside the pinned ones, run the suite and print what differs; AGENT=codex,qwen selects some
	@go run ./internal/agentsnewest -agents '$(AGENT)' -dir .tmp/agents-newest

.PHONY: docs
docs: $(SUPERVISOR) $(AGENTS_READY) ## ask every agent again what it can do, and write docs/agents.md from it; AGENT=codex,qwen asks some
	@.ci/gotest RUNNEL_LONG=1 RUNNEL_AGENTS=$(AGENT) -timeout 60m -count 1 -run '^TestConformance(InSandbox)?$$' -- \
		$$(grep -rl 'providertest\.Run(' --include='*_test.go' provider | xargs -n 1 dirname | sort -u | sed 's|^|./|') -results
	go run ./internal/agentdoc

.PHONY: generate
generate: $(OPENAPI_READY) ## write the generated files again
	go generate ./...
	go run ./cmd/runnel openapi --output docs/openapi.json
	npm run --silent --prefix tools/openapi types
	go -C test/clients/go generate ./...

.PHONY: verify
verify: generate lint lint-api test-bench ## fail if anything generated is out of date, a go.mod is not tidy or the linters complain
	git diff --exit-code
	@# -e: packages that only the tests of a dependency import may be missing in go.sum
	go mod tidy -e -diff
	go -C tools mod tidy -e -diff
	go -C bench mod tidy -e -diff
	go -C test/clients/go mod tidy -e -diff

.PHONY: clean
clean: ## remove what was built and installed
	rm -rf bin internal/supervisor/bin/supervise_* ui/dist/assets ui/dist/index.html ui/node_modules test/agents/node_modules bench/peers/node_modules tools/openapi/node_modules test/clients/typescript/node_modules
