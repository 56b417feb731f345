# Each target prepares .venv itself; Python >= 3.11 with pip is all it asks for.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_TO_TEST := $(VENV)/.ready-to-test
# How long atheris searches with each of its targets.
FUZZ_SECONDS ?= 60
# How many mutated lines the native scanner is searched with, for each of two seeds.
FUZZ_LINES ?= 500000000
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e

# The tests start thousands of processes, which start sooner where bytecode is kept, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

# Platforms that `make wheels` builds for.
WHEELS ?= manylinux_2_17_x86_64 manylinux_2_17_aarch64 musllinux_1_2_x86_64 musllinux_1_2_aarch64 macosx_11_0_x86_64 macosx_11_0_arm64

.PHONY: demo test test-all test-net test-sidecar test-dashboard check bench fuzz wheels deb clean

demo: $(READY)
	@$(BIN)/elf demo

test: $(READY_TO_TEST)
	@$(BIN)/python scripts/run_tests.py

test-all: $(READY_TO_TEST)
	@$(BIN)/python scripts/run_tests.py --all

test-net: $(READY_TO_TEST)
	@$(BIN)/python -m pytest -m net

test-sidecar: $(READY_TO_TEST)
	@$(BIN)/python -m pytest -m sidecar -v -x -rPs --durations=10 tests/sidecar

test-dashboard: $(READY_TO_TEST)
	@$(BIN)/python -m pytest -m dashboard -v -x tests/dashboard

check: $(READY_TO_TEST)
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check

bench: $(READY_TO_TEST)
	@$(BIN)/python -m benchmarks

fuzz: $(READY_TO_TEST)
	@HYPOTHESIS_PROFILE=fuzz ELF_FUZZ_LINES=$(FUZZ_LINES) $(BIN)/python -m pytest -m fuzz
	@if $(INSTALL) '.[fuzz]' 2>/dev/null; then $(BIN)/python tests/overlay/fuzz_with_atheris.py $(FUZZ_SECONDS); \
	else echo "atheris cannot be installed here: hypothesis alone has searched"; fi

wheels: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check hatchling 'ziglang>=0.13'
	@for platform in $(WHEELS); do \
	ELF_WHEEL_PLATFORM=$$platform $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps \
	--no-build-isolation --wheel-dir dist . && ls dist/*$$platform.whl || exit 1; done
	@$(BIN)/python deploy/build_native.py

deb: $(READY)
	@$(BIN)/python deploy/debian/build.py

$(READY): pyproject.toml constraints.txt
	@echo "Preparing $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) .
	@touch $@

$(READY_TO_TEST): $(READY)
	@echo "Adding what the tests need ..."
	@$(INSTALL) '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
