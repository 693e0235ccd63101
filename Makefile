# Verbs of the course. `make` alone lists them. Needs make and a Python 3.11, 3.12 or 3.13;
# everything else goes into .venv and .tools, which can be deleted at any time.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup course test test-quick rehearse bounds coverage build lint check demo slides site release class bench gpu-check bench-gpu gpu-all evidence lock clean

UV_VERSION := 0.13.8
# Where uv is not installed, this is where it goes.
TOOLS := .tools/uv
VENV := .venv
STAMP := $(VENV)/.set-up
IN_VENV := $(VENV)/bin/python
# Sphinx and what the site is made of, apart from what learners install.
SITE_TOOLS := .tools/site
SITE_STAMP := $(SITE_TOOLS)/.set-up

# make setup PYTHON=python3.12 chooses an interpreter; otherwise the first that fits is taken.
PYTHON ?=
CANDIDATES := python3 python3.13 python3.12 python3.11 python
FITS := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))

# Passed on: make course COURSE_ARGS="--no-browser --port 8899", make test TEST_ARGS="-k grader",
# make bench-gpu BENCH_ARGS=--try, make demo DEMO_ARGS=--quick.
COURSE_ARGS ?=
# JupyterLab shows lessons, their help, answers and one's own work (hub/alone); with VIEW=learner no
# answers, as on a hub; with VIEW=teacher everything.
VIEW ?= alone
VIEWS := $(CURDIR)/hub/$(VIEW)$(if $(filter alone,$(VIEW)),:$(CURDIR)/hub/learner)
TEST_ARGS ?=
LOCK_ARGS ?=
BENCH_ARGS ?=
DEMO_ARGS ?=
# make site SITE_ARGS=--without-project-answers
SITE_ARGS ?=
GPU_ARGS ?=

# How many workers, and which tests run together: conftest.py. A test that kills its process ends the
# run and is named: with a new worker in its place, xdist 3.8 would wait for ever under loadscope.
PYTEST := $(IN_VENV) -m pytest -n auto --dist loadscope --max-worker-restart=0
# Tests start some 500 Pythons: what these compile of the packages, they compile once.
unexport PYTHONDONTWRITEBYTECODE

# make test PROCESSOR=x86-64-v2: results as on an older processor, NumPy's and LLVM's, must be the same.
ifdef PROCESSOR
export NUMBA_CPU_NAME := $(PROCESSOR)
export NUMBA_CPU_FEATURES :=
export NPY_DISABLE_CPU_FEATURES := $(if $(filter x86-64-v2,$(PROCESSOR)),X86_V3) X86_V4 AVX512_ICL AVX512_SPR
endif

help: ## List the verbs
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | \
	  while IFS='|' read -r verb meaning; do printf '  %-14s %s\n' "$$verb" "$$meaning"; done

setup: $(STAMP) ## Install everything into .venv (quick when nothing has changed)

course: setup ## Open JupyterLab on the course
	@PATH="$(abspath $(VENV))/bin:$$PATH" XLA_PYTHON_CLIENT_PREALLOCATE=false \
	  JUPYTER_CONFIG_PATH="$(VIEWS)$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}" \
	  $(VENV)/bin/jupyter lab $$([ "$$(id -u)" = 0 ] && echo --allow-root) \
	  --LabApp.default_url=/lab/tree/welcome.ipynb $(COURSE_ARGS)

# An environment that has been damaged since ends the tests with one line, not with a thousand failures.
.PHONY: ready
ready: setup
	@$(IN_VENV) -c '$(FITS)' 2>/dev/null || { echo "$(VENV) has no Python 3.11, 3.12 or 3.13 that starts." \
	  "Install everything anew: rm -rf $(VENV) && make setup" >&2; exit 1; }
	@$(IN_VENV) tests/support/installed.py

test: ready ## Run the tests: the packages, the grader, the lessons' exercises
	$(PYTEST) -m "not rehearsal" $(TEST_ARGS)

# What tells a newcomer whether the machine works: a room of each floor.
QUICK := packages/virtualgpu/tests/ptx packages/virtualgpu/tests/operations/test_operations_integer.py \
  packages/virtualgpu/tests/lanes/test_simt.py packages/virtualgpu/tests/watch/test_racecheck.py \
  packages/virtualgpu/tests/numba/test_numba_frontend.py packages/virtualgpu/tests/cuda \
  packages/gpustandins/tests/test_cupy_arrays.py packages/gpucourse/tests/data \
  packages/gpucourse/tests/exercises packages/gpucourse/tests/grading/test_grading_ingest.py \
  packages/gpucourse/tests/grading/test_grading_inert.py tests/repository/test_repository.py

test-quick: ready ## Run a part of the tests, in less than a minute
	$(PYTEST) -q $(QUICK) $(TEST_ARGS)

# To collect all tests would take each worker 10 s.
REHEARSED = $(shell grep -rl --include='test_*.py' 'mark\.rehearsal' packages tests | sort | \
  awk -v part=$(PART) 'BEGIN { split(part, at, "/") } NR % at[2] == at[1] % at[2]')
# make rehearse PART=2/4 runs the second quarter of the files.
PART ?= 1/1

rehearse: ready $(SITE_STAMP) ## Run the long tests: browsers, servers, releases, all wrong answers
	$(PYTEST) -m rehearsal $(REHEARSED) $(TEST_ARGS)

# virtualgpu alone, as an index would install it, and then its stand-ins: BOUNDS=highest or lowest-direct of what it allows,
# in an environment of its own. make bounds BOUNDS=highest PYTHON=python3.14
BOUNDS ?= lowest-direct
BOUNDS_VENV := build/bounds

BOUNDS_NEED := "./packages/virtualgpu[mlir,numba-cuda,tile]" "pytest>=8.4" "pytest-xdist>=3.6" \
  "hypothesis>=6.120" "ipython>=8.30"
BOUNDS_PYTEST = ../../$(BOUNDS_VENV)/bin/python -m pytest -n auto --dist loadscope \
  -m "not rehearsal" $(TEST_ARGS)

bounds: ## Test virtualgpu alone, then its stand-ins, with the lowest or newest versions allowed
	@$(find_uv); "$$uv" venv -q --clear $(if $(PYTHON),--python $(PYTHON)) $(BOUNDS_VENV); \
	"$$uv" pip install -q --python $(BOUNDS_VENV)/bin/python --resolution $(BOUNDS) $(BOUNDS_NEED); \
	"$$uv" pip freeze -q --python $(BOUNDS_VENV)/bin/python | grep -iE '^(numba|numpy|cuda-)'
	cd packages/virtualgpu && $(BOUNDS_PYTEST)
	@$(find_uv); "$$uv" pip install -q --python $(BOUNDS_VENV)/bin/python --resolution $(BOUNDS) $(BOUNDS_NEED) \
	  "./packages/gpustandins[cudf,scipy]" "awkward>=2.8" "vector>=1.6"
	cd packages/gpustandins && $(BOUNDS_PYTEST)

# A report, not a bar to pass. What runs in the grader's sandbox cannot write down what it ran.
coverage: ready $(SITE_STAMP) ## Run the tests and report the lines that they reach, into build/coverage
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-report=html:build/coverage $(TEST_ARGS)

build: setup ## Make the notebooks from course/, and binder/ and environment.yml from pyproject.toml
	$(IN_VENV) -m gpucourse.publish.release.environments
	$(VENV)/bin/gpucourse build
	$(IN_VENV) -m lab.pages.standins_page docs/standins.md
	$(IN_VENV) -m lab.pages.docs_notebooks

lint: setup ## Lint the code, its imports, and the names that texts mention
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check --quiet
	$(VENV)/bin/lint-imports
	$(IN_VENV) -m lab.lint

check: lint ## Lint, and see that what is generated is current and that the course tests itself
	$(VENV)/bin/mypy
	$(IN_VENV) -m gpucourse.publish.release.environments --check
	$(VENV)/bin/gpucourse check
	$(VENV)/bin/gpucourse check --successor

demo: setup ## Grade a class of right and wrong submissions and print the table
	$(VENV)/bin/gpucourse demo $(DEMO_ARGS)

# Both run every lesson on this machine, unless nothing has changed since the last time.
slides: setup $(SITE_STAMP) ## Each lecture as slides for a browser, into build/slides
	$(IN_VENV) -m gpucourse.publish.site.build --sphinx $(SITE_TOOLS)/bin/python --slides build/slides

site: setup $(SITE_STAMP) ## The course as a static site that opens offline, into build/site
	$(IN_VENV) -m gpucourse.publish.site.build --sphinx $(SITE_TOOLS)/bin/python $(SITE_ARGS) build/site

release: setup ## The handout for learners as one zip file, into build/release
	@rm -rf build/release; $(find_uv); for package in virtualgpu gpustandins gpucourse; do \
	  "$$uv" build -q --wheel --python $(IN_VENV) --build-constraint requirements/build.txt \
	    --require-hashes --out-dir build/release packages/$$package || exit; done
	@$(IN_VENV) -m gpucourse.publish.release.handout build/release

class: release ## A class's own tree, without answers: a git repository and a zip file, into build/class
	@$(IN_VENV) -m gpucourse.publish.release.class_tree build/release build/class

bench: setup ## Measure the virtual GPU and jaxpile
	$(IN_VENV) -m lab.benchmarks.native_speed
	JAX_PLATFORMS=cpu $(IN_VENV) -m lab.benchmarks.jit_speed --write

# What a machine has that a part wants: docs/gpu.md. Without a GPU, GPU_ARGS=--rehearse.
gpu-check: setup ## Compare this machine's GPU with the virtual one, kernel by kernel
	$(IN_VENV) -m lab.gpu_check $(GPU_ARGS)

# Needs an NVIDIA GPU and requirements/gpu.txt or gpu12.txt; one run takes ten minutes. Without a GPU,
# BENCH_ARGS=--try runs every row once, with no times.
bench-gpu: setup ## Time the kernels against libraries on this machine's GPU
	$(IN_VENV) -m lab.benchmarks.gpu_bench $(BENCH_ARGS)

# Nine minutes on a GPU, the most valuable first; given again, it goes on. Without a GPU:
# make gpu-all BENCH_ARGS=--try GPU_ARGS=--rehearse.
gpu-all: setup ## All that needs a GPU: times, then the comparison
	$(IN_VENV) -m lab.benchmarks.gpu_bench --go-on --minutes 4 $(BENCH_ARGS)
	$(IN_VENV) -m lab.gpu_check --minutes 5 $(GPU_ARGS)

evidence: setup ## The long checks in full: all seeds, suites, fuzzed kernels, the grader's
	$(IN_VENV) -m lab.evidence.labelled
	$(IN_VENV) -m lab.suites numba-cuda numba-cuda-two-devices numba-cuda-simulator numba-cuda-mlir
	$(IN_VENV) -m lab.evidence.fuzz --cases 1000000
	$(IN_VENV) -m lab.evidence.native --kernels 4000
	$(IN_VENV) -m lab.evidence.grader_threats
	$(IN_VENV) -m lab.benchmarks.grader_throughput
	$(IN_VENV) -m lab.evidence.project_seeds

# The locks name no index, so that any index or mirror serves them. Extras stay in them: pip before 24
# refuses `coverage==1` with hashes where a package asks for coverage[toml] and a newer one is out.
# A pin moves only where pyproject.toml asks, unless LOCK_ARGS=--upgrade.
lock: $(STAMP) ## Resolve the dependencies into requirements/ (needs the network)
	@$(find_uv); $(IN_VENV) -m gpucourse.course.locks | while read -r name options; do \
	  echo "requirements/$$name.txt"; \
	  "$$uv" pip compile -q $(LOCK_ARGS) --no-emit-package virtualgpu --no-emit-package gpustandins \
	    --universal --python-version 3.11 --generate-hashes \
	    --no-strip-extras --no-emit-index-url --custom-compile-command "make lock" \
	    $$options -o requirements/$$name.txt </dev/null || exit; done
	$(IN_VENV) -m gpucourse.publish.release.environments

clean: ## Remove what the verbs made, except .venv and .tools
	rm -rf build dist .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find . -path ./.venv -prune -o -path ./.tools -prune -o -path ./.git -prune -o \
	  -type d \( -name __pycache__ -o -name .ipynb_checkpoints \) -print | xargs rm -rf

# --- set-up -----------------------------------------------------------------------------------

# Sets $$uv: the one on PATH if it runs and is new enough (0.8 brought `uv venv --clear`), else the
# private one, which is fetched when missing. Debian's python3 makes no virtual environment unless
# python3-venv is installed, hence pip's --target.
define find_uv
set -e; \
if uv venv --clear --help >/dev/null 2>&1; then uv=uv; else \
  uv="$$PWD/$(TOOLS)/bin/uv"; \
  if ! "$$uv" --version >/dev/null 2>&1; then \
    echo "uv is missing: fetching uv $(UV_VERSION) into $(TOOLS)"; rm -rf $(TOOLS); \
    for python in $(PYTHON) $(CANDIDATES); do \
      "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || continue; \
      if "$$python" -m pip --version >/dev/null 2>&1; then \
        PIP_ROOT_USER_ACTION=ignore "$$python" -m pip install -q --disable-pip-version-check \
          --target $(TOOLS) uv==$(UV_VERSION) && break; \
      elif "$$python" -m venv $(TOOLS) 2>/dev/null; then \
        $(TOOLS)/bin/python -m pip install -q --disable-pip-version-check uv==$(UV_VERSION) \
          && break; \
      fi; \
    done; \
    if ! "$$uv" --version >/dev/null 2>&1; then \
      echo "uv could not be fetched. Install it (https://docs.astral.sh/uv/) or, on Debian and" \
        "Ubuntu, install python3-venv; then run make again." >&2; exit 1; fi; \
  fi; \
fi
endef

# The programs in .venv name their interpreter by its full path: in a folder that has been renamed or
# copied since, they do not start. The stamp says where it was made.
MOVED := $(shell [ -s $(STAMP) ] && [ "$$(cat $(STAMP))" != "$(CURDIR)" ] && echo moved)
.PHONY: moved

# Each candidate is tried by running it: a pyenv shim may exist and still refuse to start. What is in
# packages/gpucourse's jupyter/ and share/ is copied into .venv by the install.
$(STAMP): requirements/base.txt $(wildcard packages/*/pyproject.toml) Makefile \
  $(shell find packages/gpucourse/jupyter packages/gpucourse/share \
    -type f 2>/dev/null) $(MOVED)
	@$(find_uv); \
	if [ "$(MOVED)" ] || ! $(IN_VENV) -c '$(FITS)' 2>/dev/null || \
	  { [ -e $(VENV)/bin/jupyter ] && ! $(VENV)/bin/jupyter --version >/dev/null 2>&1; }; then \
	  chosen="$(PYTHON)"; \
	  if "$$chosen" -c '' 2>/dev/null && ! "$$chosen" -c '$(FITS)'; then \
	    echo "$$chosen is $$("$$chosen" --version); the course needs 3.11, 3.12 or 3.13." >&2; \
	    exit 1; fi; \
	  if [ -z "$$chosen" ]; then for python in $(CANDIDATES); do \
	    if "$$python" -c '$(FITS)' 2>/dev/null; then \
	      chosen=$$("$$python" -c 'import sys; print(sys.executable)'); break; fi; done; fi; \
	  "$$uv" venv -q --clear --python "$${chosen:->=3.11,<3.14}" $(VENV) || { \
	    echo "No Python 3.11, 3.12 or 3.13 here, and uv could not fetch one. Install one and run" \
	      "make again, or name it: make setup PYTHON=/path/to/python3.12" >&2; exit 1; }; \
	fi; \
	echo "Installing into $(VENV): 2.7 GB, some minutes the first time"; \
	"$$uv" pip sync -q --compile-bytecode --python $(IN_VENV) --require-hashes requirements/base.txt; \
	"$$uv" pip install -q --python $(IN_VENV) --no-deps \
	  --editable packages/virtualgpu --editable packages/gpustandins \
	  --editable packages/gpucourse --editable packages/jaxpile; \
	printf '%s\n' "$(CURDIR)" > $@; \
	echo "Set up in $(VENV) with $$($(IN_VENV) --version)"

$(SITE_STAMP): requirements/site.txt $(STAMP)
	@$(find_uv); \
	"$$uv" venv -q --clear --python $(IN_VENV) $(SITE_TOOLS); \
	"$$uv" pip sync -q --python $(SITE_TOOLS)/bin/python --require-hashes requirements/site.txt; \
	touch $@
