# What a newcomer types. Each target installs what is missing (Debian, Ubuntu) and says so.
#
#   make build     the program, at build/shardkit
#   make demo      merges the sample checkpoint into out/ and inspects both
#   make test      builds everything and runs all tests that need no PyTorch
#   make install   the program and the C++ library, below PREFIX (/usr/local); DESTDIR as usual
#   make dist      a program for machines with nothing installed, as dist/shardkit-*.tar.gz
#   make interop   tests against PyTorch, transformers and safetensors, in build/interop-venv
#   make errors    runs the tests and writes docs/errors.md of what they saw
#   make format    lays C++ out as .clang-format says
#   make bench     times merging and state dict operations against copying the bytes, and looks at
#                  huge checkpoints; times uploads to a stand-in Hub
#   make clean     removes build/, dist/ and out/

JOBS ?= $(shell nproc)
SAMPLE := tests/fixtures/torch-2.13.0/fsdp2_fp32_w4
INSTALL := tools/install_dependencies.sh
PREFIX ?= /usr/local
VENV := build/interop-venv

.PHONY: build demo test install dist interop errors bench format clean
.DEFAULT_GOAL := build

build:
	@$(INSTALL) build
	@[ -f build/build.ninja ] || cmake --preset release
	cmake --build build -j $(JOBS) --target shardkit_program

demo: build
	rm -rf out
	build/shardkit inspect $(SAMPLE)
	build/shardkit merge --backend fsdp --local_dir $(SAMPLE) --target_dir out
	build/shardkit inspect out
	@echo
	@echo "out/ is a Hugging Face model folder. Your own checkpoint:"
	@echo "  build/shardkit merge --backend fsdp --local_dir CHECKPOINT --target_dir MODEL"

test:
	@$(INSTALL) build test
	cmake --preset release
	cmake --build build -j $(JOBS)
	@if ctest --test-dir build -j $(JOBS) --output-on-failure; then \
	  echo "make test: all tests passed"; \
	else \
	  echo "make test: FAILED, see above; again with: ctest --test-dir build --rerun-failed"; exit 1; \
	fi

# Needs 12 GB where temporary files go (TMPDIR), all removed at the end, and a quarter of an hour; compares
# with PyTorch after `make interop`.
bench: build
	cmake --build build -j $(JOBS) --target bench_checkpoint bench_state_dict
	python3 bench/merge_bench.py
	python3 bench/scale.py
	python3 bench/state_dict_bench.py
	python3 bench/upload_bench.py

install: build
	cmake --build build -j $(JOBS) --target shardkit
	DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(abspath $(PREFIX))"

# `make test` makes and tests one too.
dist: build
	cmake --build --preset dist -j $(JOBS)
	tools/make_dist.sh build dist

# PyTorch goes in first, alone: everything else is pinned to what was tried with it.
$(VENV)/installed: tests/interop/requirements.txt
	@$(INSTALL) interop
	rm -rf $(VENV)
	python3 -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet $$(grep '^torch==' $<)
	$(VENV)/bin/python -m pip install --quiet -r $<
	cp $< $@

interop: build $(VENV)/installed
	cmake --build build -j $(JOBS) --target box_rule state_dict_ops launched_ranks \
	  example_load_and_gather
	$(VENV)/bin/python -m pytest -p no:cacheprovider tests/interop

# After `make test`.
errors:
	rm -f build/errors.record
	SHARDKIT_RECORD_ERRORS=$(CURDIR)/build/errors.record ctest --test-dir build -j $(JOBS) -E '^tools\.errors$$'
	python3 tools/errors_page.py build/errors.record

format:
	@$(INSTALL) format
	python3 tools/check_format.py clang-format-14 --write

clean:
	rm -rf build dist out
