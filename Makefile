# make test    everything that must hold: lint, types, tests (the first run installs what is needed)
# make quick   the tests that take half a minute      make shuffle  all tests in another order (SEED=n repeats one)
# make exhaustive  the same with all combinations of everything (twice as long)
# make demo    install for use only, and show what it does
# make lint    ruff and mypy alone          make docs    rewrite generated tables, build the site (build/site)
# make wheel   build the distributions, install the wheel and run make quick's tests on it (PYTHON=python3.13, LOWEST=1)
# make bench   run the benchmarks           make clean   remove everything that was generated
# make rocblas fetch the kernels of a BLAS library for make bench (make test has those of two smaller libraries)
# make guest   Acceldev under QEMU and Linux: see tools/guest.mk

BIN := .venv/bin
# The stamps lie in the environment, so that removing it removes them.
VENV := .venv/.made
USE := .venv/.installed
DEV := .venv/.installed-dev
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input
INPUTS := pyproject.toml Makefile tools/venv.sh
# Files side by side on all processors, in the order of tests/conftest.py; a file's tests share what they set up.
# One more than there are processors, because some wait: for a guest, a socket, a limit of time.
PYTEST := $(BIN)/python -m pytest
SIDE_BY_SIDE = -n $(or $(JOBS),$(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)) --dist loadfile --no-loadscope-reorder --max-worker-restart=0
# Side by side: packages into the environment, lint and bytecode on one processor, programs that tests compare with on
# another.
PREPARE = $(MAKE) --no-print-directory -j2 lint bytecode oracles
SPHINX := $(BIN)/python -m sphinx -q -W --keep-going -c docs/site
# Something of every layer and interface, two thousand tests in less than 30 CPU seconds.
QUICK := test_layers.py core check trace image/riscv/test_program.py image/hsa/test_code_object.py \
	engine/gcn/test_group.py engine/gcn/reference/test_reference.py device/refsi/test_rules_*.py host/acceldev/test_acceldev.py \
	host/amdcl2/test_program.py host/fletcher/test_platform.py host/hsa/test_gpu.py host/refsi/test_refsi.py

.PHONY: test quick exhaustive shuffle demo lint bytecode docs links wheel bench clean oracles rocblas

test:
	@$(PREPARE)
	$(PYTEST) $(SIDE_BY_SIDE)

quick: $(DEV)
	$(PYTEST) -q -m "not slow" $(wildcard $(addprefix tests/,$(QUICK)))

exhaustive:
	@$(PREPARE)
	$(PYTEST) $(SIDE_BY_SIDE) --exhaustive

shuffle: $(DEV) oracles
	$(PYTEST) $(SIDE_BY_SIDE) --random-order-bucket=global --random-order-seed=$(or $(SEED),$(shell date +%s))

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Bytecode of the package and the tests as pytest loads them: otherwise each process side by side makes all of it, 14
# CPU seconds. Tests that cannot be collected fail later.
bytecode: $(DEV)
	@$(PYTEST) --collect-only -q >/dev/null 2>&1 || true

demo: $(USE)
	$(BIN)/softcard demo

docs: $(DEV)
	$(BIN)/python tools/gen_docs.py
	$(SPHINX) -a -b html docs build/site

# Whether what pages link to elsewhere is still there: needs the network.
links: $(DEV)
	$(SPHINX) -b linkcheck docs build/links

# In an environment of its own: what lacks in the wheel, or in what it says that it needs, is not there.
wheel:
	@sh tools/wheel.sh $(wildcard $(addprefix tests/,$(QUICK)))

bench: $(DEV) oracles
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python tools/gen_docs.py

# Programs that tests compare with; tests skip those that cannot be installed, but fail with CI=true.
oracles: $(VENV)
	@sh tools/oracles.sh

# Kernels that benchmarks run beside those of `make oracles` where they are there.
rocblas: $(VENV)
	@sh tools/rocm-kernels.sh blas

$(VENV): $(INPUTS)
	@sh tools/venv.sh .venv
	@touch $@

$(USE): $(VENV)
	@echo "installing softcard into .venv"
	@$(PIP) --editable '.[arrow]'
	@touch $@

$(DEV): $(VENV)
	@echo "installing softcard and its development tools into .venv"
	@$(PIP) --no-compile --editable '.[dev]'
	@touch $(USE) $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

include tools/guest.mk
