# dpopt: `make demo` and `make test` set up everything they need.
CARGO ?= cargo

# What Windows calls otherwise: the programs of a virtual environment, a program's file, the interpreter. Recipes run in bash there, as they do in Git's.
ifeq ($(OS),Windows_NT)
SHELL := bash
BIN := Scripts
EXE := .exe
PYTHON ?= python
else
BIN := bin
EXE :=
PYTHON ?= python3
endif

DPOPT := target/release/dpopt$(EXE)

.PHONY: help lint demo test test-slow test-python bench bench-noise bench-adult bench-accounting bench-sparse bench-torch bench-objectives bench-utility bench-moments crosscheck figures audit

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

lint: ## layout and lints of what ships: rustfmt, clippy
	@$(CARGO) fmt --version >/dev/null 2>&1 || { echo 'rustfmt is missing: rustup component add rustfmt' >&2; exit 1; }
	@$(CARGO) clippy --version >/dev/null 2>&1 || { echo 'clippy is missing: rustup component add clippy' >&2; exit 1; }
	$(CARGO) fmt --all --check
	@# The profile of the tests: build scripts and procedural macros serve both, and dependencies are only checked, not built. Without the self-audit the kernel's
	@# feature past-the-curator is off: nothing sensitive can be read from here, says the compiler.
	$(CARGO) clippy --release --workspace $(addprefix --exclude ,$(RESEARCH) $(EXAMPLES)) --all-targets -- -D warnings
	@CARGO='$(CARGO)' .ci/shared-features

.PHONY: lint-research
lint-research: ## lints of the research crates and of the examples
	$(CARGO) clippy --release $(addprefix --package ,$(RESEARCH) $(EXAMPLES)) --all-targets -- -D warnings

demo: ## build, generate a census-like table, fit it privately, score it, write demo/report.html
	$(CARGO) build --release -q -p dpopt-cli
	@mkdir -p demo
	$(DPOPT) generate census --rows 30000 --seed 1 -o demo/census.csv
	@echo
	$(DPOPT) split demo/census.csv --fraction 0.8 --seed 1 -o demo/train.csv demo/test.csv
	@echo
	$(DPOPT) explain demo/train.csv --target income --epsilon 1 --delta 1e-6 --bounds demo/bounds.toml
	@echo
	$(DPOPT) fit demo/train.csv --target income --epsilon 1 --delta 1e-6 --bounds demo/bounds.toml \
		-o demo/model.json --report demo/report.html
	@echo
	$(DPOPT) evaluate demo/model.json demo/test.csv
	@echo
	@echo 'Open demo/report.html in a browser.'

# PYTHON is an interpreter of 3.10 or newer for the tests; the wheel serves all of them.
VENV ?= .venv
PY := $(VENV)/$(BIN)/python
# Tests of a file stay in one process, which makes its tables once.
PROCESSES ?= 2
DIST ?= loadfile

# Seconds of each phase are printed at the end.
PHASE := .ci/phase
# What stands on the product and does not ship: figures of the sources, and the library audited by its makers.
RESEARCH := dpopt-bar dpopt-reproduce dpopt-self-audit
# Crates as others write them, on what the library makes public.
EXAMPLES := dpopt-examples own-method
PRODUCT := --workspace --exclude dpopt-python $(addprefix --exclude ,$(RESEARCH) $(EXAMPLES))

test: ## what guards correctness and privacy: lints, tests of the Rust crates that ship, then of the Python package
	@$(PHASE) --begin
	@# packages for Python come over the network while the compiler works
	@$(PHASE) "lints, packages" $(MAKE) --no-print-directory --jobs=2 lint $(VENV)/ready
	@$(PHASE) "build of the Rust tests" $(CARGO) test --release $(PRODUCT) --lib --bins --tests --no-run
	@$(PHASE) "Rust tests" $(MAKE) --no-print-directory test-rust
	@# programs that would misuse the kernel do not compile; test-slow has the other examples of the documentation
	@$(PHASE) "misuse" $(CARGO) test --release $(PRODUCT) --doc -- misuse
	@$(PHASE) "wheel, command line" $(MAKE) --no-print-directory lint-python wheel command
	@$(PHASE) "Python tests" $(MAKE) --no-print-directory pytest SLOW='not slow'
	@$(PHASE) --end

test-slow: $(VENV)/ready ## what is long by nature: tests marked so, the self-audit, figures, the equivalence test of neighbouring tables, doctests of Rust
	@$(PHASE) --begin
	@$(PHASE) "long Rust tests" $(CARGO) test --release $(PRODUCT) --lib --bins --tests -- --ignored
	@$(PHASE) "lints of the research crates" $(MAKE) --no-print-directory lint-research
	@$(PHASE) "build of the research crates' tests" $(CARGO) test --release $(addprefix --package ,$(RESEARCH)) --lib --bins --tests --no-run
	@$(PHASE) "research" $(CARGO) test --release $(addprefix --package ,$(RESEARCH)) --lib --bins --tests
	@$(PHASE) "examples" $(CARGO) test --release $(addprefix --package ,$(EXAMPLES)) --lib --bins --tests
	@$(PHASE) "neighbours by the command line" $(CARGO) test --release --package dpopt-cli --test same_observable
	@$(PHASE) "documentation tests" $(CARGO) test --release --workspace --exclude dpopt-python --doc
	@$(PHASE) "wheel, command line" $(MAKE) --no-print-directory wheel command
	@# one file has most of them, each by itself
	@$(PHASE) "long Python tests" $(MAKE) --no-print-directory pytest SLOW=slow DIST=worksteal
	@$(PHASE) --end

.PHONY: test-fast test-method
test-fast: ## while one works: unit tests of the Rust crates that ship, and what sources are held to (minutes once everything is built)
	$(CARGO) test --release $(PRODUCT) --lib
	$(CARGO) test --release $(PRODUCT) --test sources

test-method: ## the unit tests of one method for linear models (NAME=noisy_newton: its module), half a minute after a change of it
	CARGO_INCREMENTAL=1 $(CARGO) test --release --package dpopt-linear --lib $(NAME)

.PHONY: public-api
public-api: ## write what each library makes public into docs/public-api, which a test holds against the sources
	@mkdir -p docs/public-api
	WRITE_PUBLIC_API=1 $(CARGO) test --release $(PRODUCT) --test sources public_api

.PHONY: false-alarms
RUNS ?= 200

false-alarms: ## how often do Rust tests fail whose noise is secret? RUNS=200 of each (hours)
	$(PYTHON) .ci/secret-tests $(RUNS) -- $(PRODUCT)

.PHONY: test-rust
test-rust: ## the Rust crates that ship, without what test-slow has
	$(CARGO) test --release $(PRODUCT) --lib --bins --tests

test-python: lint-python wheel command pytest ## the Python package: ruff, wheel, pytest, doctests, type stubs, gallery, the first day

.PHONY: pytest
SLOW ?=

pytest:
	$(PY) -m pytest --numprocesses=$(PROCESSES) --dist=$(DIST) $(if $(SLOW),-m '$(SLOW)') crates/python/tests

.PHONY: lint-python
lint-python: $(VENV)/ready ## layout and lints of the Python code: ruff
	$(VENV)/$(BIN)/ruff check --quiet
	$(VENV)/$(BIN)/ruff format --check --quiet

# The jobs of the first day are done by the command line too.
.PHONY: command
command:
	$(CARGO) build --release -q -p dpopt-cli

.PHONY: wheel
wheel: $(VENV)/ready
	@rm -rf target/wheels
	$(VENV)/$(BIN)/maturin build --release --locked --interpreter $(PY) --out target/wheels --quiet
	$(PY) -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/dpopt-*.whl

# Ray, Dask and Spark for real, in an environment of their own; Spark needs a Java runtime.
ENGINES := .venv-engines
ONLY ?=

# A wheel in the environment $(1), which has a maturin of its own: what the tests of the package need is not fetched for it.
define installed
@rm -rf target/wheels$(1)
$(1)/$(BIN)/maturin build --release --locked --interpreter $(1)/$(BIN)/python --out target/wheels$(1) --quiet
@$(1)/$(BIN)/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels$(1)/dpopt-*.whl
endef

$(ENGINES)/ready: crates/python/engines/requirements.txt
	@rm -rf $(ENGINES)
	@$(PYTHON) -m venv $(ENGINES) 2>/dev/null || { rm -rf $(ENGINES); $(PYTHON) -m virtualenv --quiet $(ENGINES); }
	$(ENGINES)/$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

.PHONY: java
java:
	@command -v java >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless >/dev/null; } 2>/dev/null \
		|| { echo 'Spark needs a Java runtime of 17 or later, and it could not be installed here: on Debian, as root, apt-get install openjdk-17-jre-headless' >&2; exit 1; }

.PHONY: test-engines
test-engines: $(ENGINES)/ready java ## Dask, Ray and Spark give the same model to the last bit as one process (ONLY='dask ray'; minutes and the downloads)
	$(call installed,$(ENGINES))
	$(ENGINES)/$(BIN)/python crates/python/engines/check.py $(ONLY)

# NVFlare for real, in an environment of its own.
FLARE := .venv-nvflare

$(FLARE)/ready: crates/python/engines/nvflare-requirements.txt
	@rm -rf $(FLARE)
	@$(PYTHON) -m venv $(FLARE) 2>/dev/null || { rm -rf $(FLARE); $(PYTHON) -m virtualenv --quiet $(FLARE); }
	$(FLARE)/$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

.PHONY: test-nvflare
test-nvflare: $(FLARE)/ready ## the filter for NVFlare inside NVFlare, and a job in its simulator (a minute and the download)
	$(call installed,$(FLARE))
	$(FLARE)/$(BIN)/python crates/python/engines/nvflare_filter.py

.PHONY: bench-engines
bench-engines: $(ENGINES)/ready java ## what a pass costs on Dask, Ray and Spark, beside one process, and what follows for more rows (ten minutes)
	$(call installed,$(ENGINES))
	$(ENGINES)/$(BIN)/python benches/engines/run.py --out target/engines.json
	$(ENGINES)/$(BIN)/python benches/engines/picture.py target/engines.json docs/images/engines.svg

.PHONY: same-observable
same-observable: wheel ## do neighbouring tables look the same from outside? every method, relation, task and option
	@rm -f target/same-observable-*.txt
	$(CARGO) test -q --release -p dpopt-cli --test same_observable -- --full | tee target/same-observable-command-line.txt
	$(PY) crates/python/tests/same_observable.py --full | tee target/same-observable-python.txt
	@grep -hoE 'pairs [0-9]+, differing [0-9]+' target/same-observable-*.txt | tr -d , \
		| awk '{ pairs += $$2; differing += $$4 } END { if (NR != 2) print "an equivalence test did not end"; print "pairs " pairs ", differing " differing; exit (NR != 2 || differing > 0) }'

.PHONY: seeded-fits
KEEP ?=

seeded-fits: wheel ## do seeded runs answer and spend what they did? every method, face, relation and task (five minutes; KEEP=1: keeps the new answers)
	@mkdir -p target/seeded-fits
	$(CARGO) test -q --release -p dpopt-cli --test same_observable -- --seeded > target/seeded-fits/command-line.txt
	$(PY) crates/python/tests/seeded_fits.py > target/seeded-fits/python.txt
	@.ci/seeded-fits $(if $(KEEP),--keep)

# Debian's python3 may lack venv or ensurepip; virtualenv and uv do without them.
$(VENV)/ready: crates/python/requirements-test.txt crates/python/requirements-torch.txt
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV); $(PYTHON) -m virtualenv --quiet $(VENV) 2>/dev/null; } \
		|| { rm -rf $(VENV); uv venv --quiet --seed --python $(PYTHON) $(VENV) 2>/dev/null; } \
		|| { echo 'No virtual environment could be made with `$(PYTHON)`. Install python3-venv (or virtualenv, or uv), or name' \
		'another interpreter of Python 3.10 or newer: make test PYTHON=/path/to/python3' >&2; exit 1; }
	$(PY) -m pip install --quiet --disable-pip-version-check --no-compile -r crates/python/requirements-test.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-compile -r crates/python/requirements-torch.txt
	@touch $@

.venv-bench/noise: benches/noise/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/$(BIN)/pip install --quiet -r $<
	touch $@

.venv-bench-speed/ready: benches/speed/requirements.txt crates/python/requirements-torch.txt
	$(PYTHON) -m venv .venv-bench-speed
	.venv-bench-speed/$(BIN)/pip install --quiet --disable-pip-version-check -r $<
	@# large, and not everywhere: without them the lines of PyTorch and Opacus are named as not measured
	-.venv-bench-speed/$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r crates/python/requirements-torch.txt
	touch $@

bench: .venv-bench-speed/ready wheel command ## the speed of everything beside its peers, ten minutes after the build; fails if a ratio is 15 % worse than recorded (ONLY='csv noise': lines; RECORD=1: keeps the results, NOTE='…')
	.venv-bench-speed/$(BIN)/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/dpopt-*.whl
	$(CARGO) build -q --release -p dpopt-privacy --example account
	.venv-bench-speed/$(BIN)/python benches/speed/run.py $(if $(ONLY),--only $(ONLY)) $(if $(RECORD),--record) $(if $(NOTE),--note '$(NOTE)')

bench-noise: .venv-bench/noise ## noise samplers against NumPy and OpenDP
	$(CARGO) bench -q -p dpopt-draws --bench noise --no-run
	.venv-bench/$(BIN)/python benches/noise/run.py

.venv-bench-adult/ready: benches/adult/requirements.txt
	$(PYTHON) -m venv .venv-bench-adult
	.venv-bench-adult/$(BIN)/pip install --quiet -r $<
	touch $@

bench-adult: .venv-bench-adult/ready ## accuracy and speed on the census table against Opacus and diffprivlib (DPOPT_DATA: the folder with adult/adult.csv)
	$(CARGO) build --release -q -p dpopt-cli
	.venv-bench-adult/$(BIN)/python benches/adult/run.py

.venv-bench-sparse/ready: benches/sparse/requirements.txt
	$(PYTHON) -m venv .venv-bench-sparse
	.venv-bench-sparse/$(BIN)/pip install --quiet -r $<
	touch $@

bench-sparse: .venv-bench-sparse/ready ## sparse DP-SGD against Opacus and our own SGD without privacy
	$(CARGO) bench -q -p dpopt --bench sparse --no-run
	.venv-bench-sparse/$(BIN)/python benches/sparse/run.py

.venv-bench-torch/ready: benches/torch/requirements.txt
	$(PYTHON) -m venv .venv-bench-torch
	.venv-bench-torch/$(BIN)/pip install --quiet -r $<
	touch $@

bench-torch: .venv-bench-torch/ready wheel ## a private step of a PyTorch network against Opacus, and the accuracy of both
	.venv-bench-torch/$(BIN)/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/dpopt-*.whl
	.venv-bench-torch/$(BIN)/python benches/torch/run.py

bench-objectives: wheel ## losses of one's own: the same network natively, as a PyTorch callable and by Opacus; one pass over a million records
	$(PY) -W ignore benches/objectives/run.py

.venv-bench-utility/ready: benches/utility/requirements.txt
	$(PYTHON) -m venv .venv-bench-utility
	.venv-bench-utility/$(BIN)/pip install --quiet -r $<
	touch $@

UTILITY := target/utility-results.jsonl
RUN_UTILITY := .venv-bench-utility/$(BIN)/python -W ignore benches/utility/run.py --tools all --splits even --jobs 2 --quiet --out $(UTILITY)
SHOW_UTILITY := .venv-bench-utility/$(BIN)/python benches/utility/page.py $(UTILITY)

bench-utility: .venv-bench-utility/ready wheel ## accuracy on a panel of tables against DP-EBM, Opacus and diffprivlib, into docs/benchmarks.md (40 minutes; QUICK=1: three, no page; RESUME=1: keeps what an interrupted run has)
	.venv-bench-utility/$(BIN)/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/dpopt-*.whl
	$(CARGO) build --release -q -p dpopt-cli
	$(if $(RESUME),,@rm -f $(UTILITY))
	$(RUN_UTILITY) $(if $(RESUME),--resume) $(if $(QUICK),--quick,--count 2 --regret)
	$(SHOW_UTILITY) $(if $(QUICK),,--page docs/benchmarks.md)

bench-moments: .venv-bench-utility/ready wheel ## naive Bayes, scales and principal components beside diffprivlib (DPOPT_DATA: the folder with adult/adult.csv; ten minutes)
	.venv-bench-utility/$(BIN)/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/dpopt-*.whl
	.venv-bench-utility/$(BIN)/python benches/moments/run.py

.venv-bench/accounting: benches/accounting/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/$(BIN)/pip install --quiet -r $<
	touch $@

bench-accounting: .venv-bench/accounting ## privacy accounting and calibration against dp_accounting
	$(CARGO) build -q --release -p dpopt-privacy --example account
	.venv-bench/$(BIN)/python benches/accounting/run.py

.venv-crosscheck/done: crates/privacy/crosscheck/requirements.txt
	$(PYTHON) -m venv .venv-crosscheck
	.venv-crosscheck/$(BIN)/pip install --quiet -r $<
	touch $@

crosscheck: .venv-crosscheck/done ## 650 random events against four other accountants, into docs/accounting-crosscheck.md (PAIRS=FILE: a recording of a peer's answers first)
	$(CARGO) build -q --release -p dpopt-privacy --example account
	$(if $(PAIRS),.venv-crosscheck/$(BIN)/python crates/privacy/crosscheck/recorded.py target/release/examples/account$(EXE) '$(PAIRS)')
	.venv-crosscheck/$(BIN)/python crates/privacy/crosscheck/run.py target/release/examples/account$(EXE) docs/accounting-crosscheck.md crates/privacy/tests/data/crosscheck.json target/crosscheck.jsonl

options: wheel ## what is made from the library's descriptions: docs/methods/options.md, Python's keywords and classes of events
	$(CARGO) run -q --release -p dpopt-cli -- help options --markdown > docs/methods/options.md
	$(PY) crates/python/options.py
	$(PY) crates/python/events.py

figures: ## the pictures of the methods' pages, into docs/images (half an hour, most of it embeddings)
	$(CARGO) run -q --release -p dpopt --example method_figures -- docs/images
	$(CARGO) run -q --release -p dpopt --example embedding_figure -- docs/images/embeddings.svg

audit: corner-hunt ## injected faults must be caught, the library's claims must stand (hours; goes on where it was broken off; writes docs/audits)
	$(CARGO) run -q --release -p dpopt-self-audit -- --keep target/self-audit.jsonl --write docs/audits

# What a release is built with, in an environment of its own.
.venv-release/ready: .ci/release-requirements.txt
	@rm -rf .venv-release
	@$(PYTHON) -m venv .venv-release 2>/dev/null || { rm -rf .venv-release; $(PYTHON) -m virtualenv --quiet .venv-release; }
	.venv-release/$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

.PHONY: release-check release-twice release-wheel
release-wheel: .venv-release/ready ## the wheel as it is released, into target/release-wheel: for glibc 2.28 and later on Linux
	@rm -rf target/release-wheel
	TOOLS="$(CURDIR)/.venv-release/$(BIN)" .ci/wheel target/release-wheel

release-check: .venv-release/ready ## builds what a release ships, installs it in a bare system without a compiler and uses it there (half an hour; root; Linux)
	.ci/release-check

release-twice: .venv-release/ready ## are two builds of the wheel the same bytes? in two folders, from the same commit (twenty minutes)
	.ci/release-twice

.PHONY: coverage
coverage: ## what became of every theorem and algorithm of the sources, into docs/coverage.md
	DPOPT_WRITE_COVERAGE=1 $(CARGO) test -q --release --workspace --exclude dpopt-python --test coverage

.PHONY: corner-hunt
CASES ?= 100000
FROM ?= 0

corner-hunt: ## headline numbers by interval arithmetic; is any answer to random corner events below the truth? (CASES=100000, FROM=0)
	$(CARGO) test -q --release -p dpopt-accounting --lib headline_numbers_are_verified -- --nocapture
	DPOPT_CORNER_CASES=$(CASES) DPOPT_CORNER_FROM=$(FROM) $(CARGO) test -q --release -p dpopt-privacy --test corner_hunt -- --nocapture

.PHONY: known-before
known-before: ## 10,000 random plans and 1,000 random fits: does anything refuse after the charge that could be known before?
	DPOPT_WALK_PLANS=10000 DPOPT_WALK_FITS=1000 DPOPT_WALK_FROM=$(FROM) $(CARGO) test -q --release -p dpopt --test known_before_the_charge -- --nocapture

.PHONY: reproduce
NAME ?= all

reproduce: ## a figure or table of a paper (NAME=..., without it all of them), into docs/reproduce (DPOPT_DATA: the folder of data sets, for those that need one)
	$(CARGO) run -q --release -p dpopt-reproduce -- run $(NAME)
	$(CARGO) run -q --release -p dpopt-reproduce -- page
