# Each target prepares .venv itself; Python >= 3.11 with pip is all it asks for.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check bench fuzz clean

demo: $(READY)
	@$(BIN)/elf demo

test: $(READY)
	@$(BIN)/python -m pytest -m "not slow"

check: $(READY)
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/check

bench: $(READY)
	@$(BIN)/python -m benchmarks

fuzz: $(READY)
	@HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -m fuzz

$(READY): pyproject.toml constraints.txt
	@echo "Preparing $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
