# dpopt: `make demo` and `make test` set up everything they need.
CARGO ?= cargo

.PHONY: help test test-rust

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

test: test-rust ## all tests

test-rust:
	$(CARGO) test --release --workspace
