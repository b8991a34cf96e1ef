# Two commands are all a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet -c constraints.txt

.PHONY: install demo test lint types contract compiled chromium unit bench-speed bench-discovery bench-nkn bench-kfo bench-surfaces bench-textures bench-regimes bench-cuda bench-scale bench-golden bench-shape bench-optimise bench-forecast bench-tables bench-interop bench-truth bench-first bench-auto fuzz package clean docs bench-app paper

# Mercer in .venv, ready to use: .venv/bin/mercer --help
install: $(VENV)/.runtime

demo: $(VENV)/.runtime
	$(BIN)/mercer demo --out mercer-demo

# What needs one core each comes first, two at a time; compiling here spares both test workers the same half minute.
test: $(VENV)/.dev
	$(MAKE) --no-print-directory -j 2 --output-sync lint types contract compiled
	$(MAKE) --no-print-directory unit

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# torch comes first and pinned: a looser request would fetch gigabytes of CUDA libraries.
$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	$(PIP) -e ".[app]"
	touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(PIP) -e ".[dev]"
	touch $@

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests benchmarks examples docs

types: $(VENV)/.dev
	$(BIN)/mypy

contract: $(VENV)/.dev
	$(BIN)/lint-imports

# Numba's cache of the fused path, which an edit of its files makes anew.
compiled: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore scripts/compile-kernels

# For the screenshots of the report; never fails, tests are skipped where there is no Chromium.
chromium:
	@scripts/install-chromium

# One BLAS thread per test worker: two workers on two cores. Work is stolen in blocks, so that a file's tests mostly
# run in one worker and models that they share are fitted once.
unit: $(VENV)/.dev chromium
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

# The site, in build/docs/html: gathers the pages, runs every script of the gallery, fails at a warning. Some minutes;
# what has not changed is not run again.
$(VENV)/.docs: $(VENV)/.runtime
	$(PIP) -e ".[docs]"
	touch $@

docs: $(VENV)/.docs
	$(BIN)/python -W ignore docs/site/build.py

# Figures go to benchmarks/results/; peers are installed beside Mercer for the comparison only.
$(VENV)/.bench: $(VENV)/.dev
	$(PIP) -r benchmarks/requirements.txt
	touch $@

bench-speed: $(VENV)/.bench
	$(BIN)/python -m benchmarks.speed

# DATA is the folder with timeseries/ and regression/ (benchmarks/README.md)
bench-discovery: $(VENV)/.dev
	$(BIN)/python -m benchmarks.discovery --data $(DATA)

bench-nkn: $(VENV)/.dev
	$(BIN)/python -m benchmarks.nkn --data $(DATA)

bench-scale: $(VENV)/.bench
	$(BIN)/python -m benchmarks.scale --data $(DATA)

bench-kfo: $(VENV)/.dev
	$(BIN)/python -m benchmarks.kfo --data $(DATA) --workers $(or $(WORKERS),1)

bench-surfaces: $(VENV)/.bench
	$(BIN)/python -m benchmarks.surfaces --data $(DATA)

# A file for each draw in benchmarks/results/regimes-runs: it can be stopped and continued.
bench-regimes: $(VENV)/.dev
	$(BIN)/python -m benchmarks.surfaces_regimes

# Both go on where an earlier run stopped; JOBS runs at a time.
bench-textures: $(VENV)/.dev
	$(BIN)/python -m benchmarks.textures --data $(DATA) --jobs $(or $(JOBS),1)

bench-forecast: $(VENV)/.bench
	$(BIN)/python -m benchmarks.forecast --jobs $(or $(JOBS),2)

bench-optimise: $(VENV)/.bench
	$(BIN)/python -m benchmarks.optimise --jobs $(or $(JOBS),1)

# Results before and after a change of the code; SET is short or whole.
bench-golden: $(VENV)/.dev
	$(BIN)/python -m benchmarks.golden --set $(or $(SET),whole) --data $(or $(DATA),../shared/data) \
	  --compare benchmarks/results/golden-before.json --report benchmarks/results/golden.md

bench-cuda: $(VENV)/.dev
	$(BIN)/python -m benchmarks.cuda

# 150 table files whose values are known.
bench-tables: $(VENV)/.dev
	$(BIN)/python -m benchmarks.tables

# 500 random models in each other library: the same mean and variance?
bench-interop: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m benchmarks.interop

# Is everything true that it says? QUICK=1 for 60 data sets; DATA for more real ones; goes on where it was stopped.
bench-truth: $(VENV)/.dev
	$(BIN)/python -m benchmarks.truth --jobs $(or $(JOBS),2) $(if $(QUICK),--quick) $(if $(DATA),--data $(DATA))

# Bad input at random, full disks and kills; PART is one or several of kernels, models, arrays, tables, disks, kills.
fuzz: $(VENV)/.dev compiled
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -W ignore -m tests.fuzz \
	  $(if $(PART),--only $(PART)) $(if $(COUNT),--count $(COUNT),--report benchmarks/results/fuzz.md)

# Twelve tables after 10, 30 and 120 s, against one SE on all columns; a file for each run, JOBS at a time.
bench-first: $(VENV)/.dev
	$(BIN)/python -m benchmarks.first_answers --data $(or $(DATA),../shared/data) --jobs $(or $(JOBS),1)

# Which learner for which table, in the same seconds: the reasons of kernel="auto". It goes on where it was stopped.
bench-auto: $(VENV)/.dev
	$(BIN)/python -m benchmarks.auto --runs benchmarks/results/auto-runs --seconds $(or $(SECONDS),20) --jobs $(or $(JOBS),1)
	$(BIN)/python -m benchmarks.auto --runs benchmarks/results/auto-runs --report

# The page in the browser: time to the first picture, 50 uploads at once, 200 in a row, memory and disk.
bench-app: $(VENV)/.dev compiled chromium
	$(BIN)/python -W ignore -m benchmarks.app

# One row of docs/papers.md again, such as ITEM=nkn-table-1: it says how long, and goes on where it was stopped.
# Without ITEM: the rows there are. DEVICE=cuda for the large tables. OLDER=2026-11-18: again what was measured before.
paper: $(VENV)/.dev
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.papers --data "$(or $(DATA),../shared/data)" --jobs "$(or $(JOBS),1)" \
	  --device "$(or $(DEVICE),cpu)" $(if $(ITEM),--item "$(ITEM)") $(if $(OLDER),--older "$(OLDER)")

# Size, how far a call travels, and habits that the design rules out.
bench-shape: $(VENV)/.dev
	$(BIN)/python -m benchmarks.shape --types

# A wheel and an archive in dist/, checked, and installed into an environment of its own; nothing is uploaded.
package:
	PYTHON=$(PYTHON) scripts/check-package $(FOLDER)

clean:
	rm -rf $(VENV) build dist mercer-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
