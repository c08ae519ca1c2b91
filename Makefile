# `make` alone lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# cargo uses all cores itself, and the steps of a target stand in their order.
.NOTPARALLEL:

# Tools that scripts/setup got, and Rust where it was installed a moment ago.
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/pgthaw/tools
export PATH := $(TOOLS)/bin:$(PATH):$(HOME)/.cargo/bin
# Where cargo puts what it builds.
TARGET := $(or $(CARGO_TARGET_DIR),target)

# As root no test may leave itself for want of a privilege or of a tool; PGTHAW_TEST_REQUIRE= lets it.
ifeq ($(shell id -u),0)
export PGTHAW_TEST_REQUIRE ?= root
endif

# Most tests wait; those that compute count twice (.config/nextest.toml).
export NEXTEST_TEST_THREADS ?= $(shell echo $$((3 * $$(nproc))))

PREFIX ?= /usr/local
PROGRAMS := pgthaw pgthaw-lab
# Keys and options of the program that a target runs: make demo ARGS="scale=10 repeats=1"
ARGS ?=

WEB_SOURCES := $(shell find web -type f -not -path 'web/node_modules/*' -not -path 'web/dist/*' 2>/dev/null)

##@ Use

.PHONY: help
help: ## Show this
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## See it on a scratch server: cold, slow, warmed, proven (its options: ARGS="scale=10 repeats=1")
	@scripts/setup --for demo
	@$(MAKE) --no-print-directory build
	@$(TARGET)/release/pgthaw bench demo $(ARGS)

.PHONY: build
build: web ## Build the program: target/release/pgthaw
	@cargo build --release --locked

.PHONY: install
install: man ## Install programs, manual pages and completions below PREFIX (/usr/local)
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 target/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	@for program in $(PROGRAMS); do \
	  [[ -x $(TARGET)/release/$$program ]] || continue; \
	  set -x; \
	  install -D -m 755 $(TARGET)/release/$$program $(DESTDIR)$(PREFIX)/bin/$$program; \
	  install -D -m 644 target/completions/$$program.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$program; \
	  install -D -m 644 target/completions/$$program.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_$$program; \
	  install -D -m 644 target/completions/$$program.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$program.fish; \
	  { set +x; } 2>/dev/null; \
	done

.PHONY: man
man: build ## Write the manual pages and the completions to target/man and target/completions
	@rm -rf target/man target/completions
	@mkdir -p target/completions
	@for program in $(PROGRAMS); do \
	  [[ -x $(TARGET)/release/$$program ]] || continue; \
	  $(TARGET)/release/$$program completions man target/man; \
	  for shell in bash zsh fish; do \
	    $(TARGET)/release/$$program completions $$shell > target/completions/$$program.$$shell; \
	  done; \
	done

.PHONY: deb
deb: man ## Make the Debian packages in target/debian
	@scripts/deb $(TARGET)/release

##@ Check

.PHONY: test
test: setup-test web ## The tests, against the newest PostgreSQL (19), some against 15
	scripts/test-servers 15 19
	cargo nextest run --locked --workspace

.PHONY: test-all-versions
test-all-versions: setup-test web ## The tests against servers 13 to 19
	scripts/test-servers 13 14 15 16 17 18 19
	cargo nextest run --locked --workspace --run-ignored all

.PHONY: lint
lint: setup-lint web ## Words, format, clippy, documentation, types of the front end, dependencies; no tests
	scripts/check-words
	cargo fmt --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo check --locked -p pgthaw --no-default-features
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items
	cd web && npm run --silent check
	scripts/check-dependencies

SECONDS ?= 60
TARGETS ?=

.PHONY: fuzz
fuzz: web ## Fuzz what reads untrusted input, each target for SECONDS=60 (TARGETS="http_requests documents" some of them)
	@scripts/fuzz $(SECONDS) $(TARGETS)

.PHONY: setup-test setup-lint
setup-test setup-lint: setup-%:
	@scripts/setup --for $*

##@ Measure

.PHONY: bench
bench: build ## A study of all ways to warm, with your own options (ARGS="disk=gp3 repeats=5")
	@$(TARGET)/release/pgthaw bench warmup $(ARGS)

.PHONY: bench-restore
bench-restore: build ## The restore study (CASES="b e" some of it, ARGS="repeats=3"): 90 minutes
	@lab/restore/run $(ARGS)

.PHONY: bench-outside
bench-outside: build ## The same races measured by nothing of pgthaw's, as root (ARGS="--case c --rounds 2"): 9 minutes
	@lab/outside/run $(ARGS)

.PHONY: bench-predict
bench-predict: build ## Forecasts beside trials: how far off the model is (ARGS="uniform-25-c4"): 12 minutes
	@lab/predict/run $(ARGS)

.PHONY: bench-tpch
bench-tpch: build ## Three reports of TPC-H from cold, alone and with what they read brought in (ARGS="--dry-run"): half an hour
	@scripts/setup --for demo
	@command -v tpchgen-cli >/dev/null || { \
	  echo "building tpchgen-cli, which generates TPC-H's rows" >&2; \
	  cargo install --quiet --locked --root $(TOOLS) --version '^4' tpchgen-cli; }
	@$(TARGET)/release/pgthaw bench lab/tpch/study.toml $(ARGS)

.PHONY: bench-reports
bench-reports: build ## TPC-H's reports from cold, alone and under `run --like`, and a scan beside pgbench (ARGS="--isolate --rounds 3"): hours
	@scripts/setup --for demo
	@command -v tpchgen-cli >/dev/null || { \
	  echo "building tpchgen-cli, which generates TPC-H's rows" >&2; \
	  cargo install --quiet --locked --root $(TOOLS) --version '^4' tpchgen-cli; }
	@lab/reports/run $(ARGS)

.PHONY: bench-code
bench-code: web ## What pgthaw's own computing costs (criterion)
	cargo bench --locked --benches

##@ Parts

.PHONY: web
web: web/dist/.built ## The report's front end: web/dist

web/dist/.built: $(WEB_SOURCES)
	cd web && npm ci --silent --ignore-scripts --no-audit --no-fund && npm run --silent build
	@touch $@

RUN ?= lab/picture/run.json

.PHONY: pictures
pictures: web ## Draw the pictures of README and the guides from a stored run and stored screens (RUN=lab/picture/run.json)
	@node web/picture.mjs $(RUN) docs/throughput.svg
	@node web/picture.mjs $(RUN) docs/pictures/study.svg lab/picture/study-labels.txt
	@for screen in map top; do \
	  node web/picture.mjs lab/picture/$$screen.txt docs/pictures/$$screen.svg lab/picture/$$screen-labels.txt; \
	done

.PHONY: clean
clean: ## Remove what was built here
	rm -rf target web/dist web/node_modules
