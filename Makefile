# GPU Tailor. `make help` lists the targets.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
DATA ?= ../shared/data
PYTEST_ARGS ?= -n 2
# Tests of the slow suite wait for servers more than they compute.
SYSTEM_ARGS ?= -n 3
# Coverage doubles the work of the fast suite: measured where CI is set, and by make coverage.
COVERAGE ?= $(CI)

.DEFAULT_GOAL := help
.PHONY: help demo evaluate test coverage test-system test-gpu lint format mutate bench bench-exporter bench-scale soak crash messages pictures docs testbed clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/uv: constraints.txt
	@test -n "$(PYTHON)" || { echo "error: Python 3.11, 3.12 or 3.13 is needed (set PYTHON=/path/to/python3)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt $(BIN)/uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt --build-constraints constraints.txt -e '.[all]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt $(BIN)/uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt --build-constraints constraints.txt --group dev -e '.[all]'
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed ## simulated cluster, 14 days of history, report, page on 127.0.0.1 (ARGS=--once ends)
	$(BIN)/gputailor demo $(ARGS)

evaluate: $(VENV)/.installed ## how right the advice is, on real data (DATA=FOLDER; ARGS="--output json")
	@$(BIN)/python -m gputailor_agent.evaluation --data $(DATA) $(ARGS)

test: lint ## lint, types, layers, and the fast suite (at most 5 minutes)
	rm -f .coverage .coverage.*
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not system and not bench" $(if $(COVERAGE),--cov --cov-report=) tests
	$(if $(COVERAGE),$(BIN)/python -m coverage report)

coverage: ## make test, with the share of lines and branches that the tests reach, and its floor
	$(MAKE) --no-print-directory test COVERAGE=yes

test-system: $(VENV)/.installed-dev ## the slow suite: real processes end to end
	@# Without Go the tests that need the servers are skipped by name; with CI set that is a failure.
	$(MAKE) --no-print-directory testbed || test -z "$$CI"
	$(BIN)/python -m pytest $(SYSTEM_ARGS) --dist loadfile -m system tests

test-gpu: $(VENV)/.installed-dev ## the exporter against known loads on this machine's NVIDIA GPU (8 minutes)
	@# One after the other: two loads at a time would not be known.
	$(BIN)/python -m pytest -p no:xdist -m gpu tests/gpu

lint: $(VENV)/.installed-dev ## ruff, mypy --strict, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev ## format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

mutate: $(VENV)/.installed-dev ## change rules, planner and profiles: do tests notice (docs/mutation.md; ARGS=--every runs all)
	@$(BIN)/python -m tests.mutation --jobs 2 $(ARGS)

bench: $(VENV)/.installed-dev ## measurements; figures go to docs/benchmarks.md by hand
	$(BIN)/python -m pytest -m bench -s tests/benchmarks

bench-exporter: $(VENV)/.installed-dev ## the exporter beside others on one fake driver: CPU, memory, scrapes (12 minutes)
	$(BIN)/python -m tests.benchmarks.exporters $(ARGS)

soak: $(VENV)/.installed-dev ## does the exporter grow while pods and MIG instances come and go (30 minutes)
	$(BIN)/python -m tests.benchmarks.soak_exporter $(ARGS)

bench-scale: $(VENV)/.installed-dev ## one hourly pass for 1,000, 10,000 and 100,000 GPUs (some minutes)
	$(BIN)/python -m pytest -m bench -s tests/benchmarks/test_bench_scale.py

crash: $(VENV)/.installed-dev ## kill a real agent 200 times on each store over simulated weeks (about half an hour)
	GPUTAILOR_CRASH_KILLS=200 $(BIN)/python -m pytest -s $(ARGS) tests/system/test_crash.py

messages: $(VENV)/.installed-dev ## bring the languages' catalogues up to date with the source
	$(BIN)/python -m gputailor_agent.reports.extracting

pictures: $(VENV)/.installed-dev ## docs/pictures: demo, pages and report in a real browser (3 minutes)
	$(BIN)/python -m tests.system.pictures

docs: $(VENV)/.installed-dev ## the documentation as a site in build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

testbed: $(VENV)/.installed-dev ## build what tests need beside Python: fake NVIDIA driver, real servers (once, by Go)
	$(BIN)/python -m tests.fakes.build
	$(BIN)/python -m tests.testbed.build

clean: ## remove everything that was built
	rm -rf $(VENV) build dist var .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
