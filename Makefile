# dpopt: `make demo` and `make test` set up everything they need.
CARGO ?= cargo

.PHONY: help test test-rust bench-noise

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

test: test-rust ## all tests

test-rust:
	$(CARGO) test --release --workspace

.venv-bench/noise: benches/noise/requirements.txt
	python3 -m venv .venv-bench
	.venv-bench/bin/pip install --quiet -r $<
	touch $@

bench-noise: .venv-bench/noise ## noise samplers against NumPy and OpenDP
	$(CARGO) bench -q -p dpopt-noise --bench noise --no-run
	.venv-bench/bin/python benches/noise/run.py
