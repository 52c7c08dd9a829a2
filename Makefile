# The entry point for people and for CI: `make demo`, `make test`.

CARGO ?= cargo
ARGS ?=
# `no`: install nothing, and leave out what is missing.
TOOLS ?= yes
# Debian's, which has Debian's Mininet.
PYTHON ?= /usr/bin/python3

.PHONY: help demo c-library mpi nccl deb deb-tools deny deny-tools mutants mutants-tools release release-check test test-rust test-python test-pytorch test-frameworks python wheel compare tools lint lint-python bench bench-agent bench-plan bench-scale bench-switch bench-forwarding bench-allreduce bench-tools paper simulate verify soak fuzz mininet p4 protos vectors

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 17

demo: ## train over an in-network aggregation tree, all in one process (ARGS="--loss 0.01")
	@echo "Building what the demo needs: two to three minutes from nothing on two cores; after that it starts at once."
	$(CARGO) run --profile demo --locked -p tributary-demo -- $(ARGS)

# PyTorch is installed while Rust is built and tested.
test: tools ## run everything that CI runs; installs missing tools first (TOOLS=no: installs nothing)
	@$(MAKE) --no-print-directory $(PYTHON_READY) & installation=$$!; \
	$(MAKE) --no-print-directory lint test-rust || { kill $$installation 2>/dev/null; exit 1; }; \
	if wait $$installation; then $(MAKE) --no-print-directory test-python; \
	else echo "SKIPPED: the Python package's tests: what they need is not there and cannot be installed" >&2; fi

test-rust: ## the Rust tests
	$(CARGO) test --workspace --locked

# Builds target/debug/tributary and tributary-bench with the features that the Rust tests have them with: after them, nothing
# is built.
LAB_PROGRAM = $(CARGO) test --workspace --locked --no-run --test end_to_end --test comparison

# With root, their programs run as ranks of labs. They wait more than they compute: two at once.
test-python: python lint-python ## lints and tests of the Python package
	$(LAB_PROGRAM)
	cd python && TRIBUTARY_BINARY=$(CURDIR)/target/debug/tributary $(PYTHON_ENV)/bin/pytest -p no:cacheprovider -n 2 --dist loadfile --no-loadscope-reorder

test-pytorch: python ## PyTorch's own tests of torch.distributed, over gloo and the fabric; root (ARGS="--ranks 4 test_all_reduce_sum")
	$(LAB_PROGRAM)
	TRIBUTARY_BINARY=$(CURDIR)/target/debug/tributary $(PYTHON_ENV)/bin/python python/tests/pytorch_suite $(ARGS)

# A Python of our own, with PyTorch (5 GB), which is installed once.
PYTHON_ENV = $(CURDIR)/target/python
PYTHON_READY = $(PYTHON_ENV)/.ready
FRAMEWORKS_ENV = $(CURDIR)/target/frameworks
FRAMEWORKS_READY = $(FRAMEWORKS_ENV)/.ready

RUFF = $(PYTHON_ENV)/bin/ruff
# Python that is not in the package.
OTHER_PYTHON = --config python/pyproject.toml examples tools/bench/schedule p4 tools/paper tools/prose

$(PYTHON_READY): python/requirements.txt examples/requirements.txt | tools
	@if [ "$(TOOLS)" = no ]; then echo "Not installed (TOOLS=no): PyTorch and others, 5 GB in target/python" >&2; exit 1; fi
	@echo "Installing PyTorch and what else the Python package is built and tested with into target/python: 5 GB, once."
	python3 -m venv $(PYTHON_ENV)
	$(PYTHON_ENV)/bin/pip install -q --disable-pip-version-check -r $<
	touch $@

# The frameworks are not where `make test` runs: they stay out of target/python, and use PyTorch from there.
$(FRAMEWORKS_READY): python/tests/frameworks/requirements.txt $(PYTHON_READY)
	@if [ "$(TOOLS)" = no ]; then echo "Not installed (TOOLS=no): frameworks, 300 MB in target/frameworks" >&2; exit 1; fi
	@echo "Installing DeepSpeed, Lightning, Transformers and others into target/frameworks: 300 MB, once."
	$(PYTHON_ENV)/bin/python -m venv $(FRAMEWORKS_ENV)
	$(PYTHON_ENV)/bin/python -c "import sysconfig as s; print(f'import site; site.addsitedir({s.get_path(\"purelib\")!r})')" \
	  >"$$($(FRAMEWORKS_ENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/pytorch.pth"
	$(FRAMEWORKS_ENV)/bin/pip install -q --disable-pip-version-check -r $<
	touch $@

test-frameworks: python $(FRAMEWORKS_READY) ## DeepSpeed, Lightning, Transformers and others over gloo and the fabric, minutes; root (ARGS="-k lightning")
	$(LAB_PROGRAM)
	cd python && TRIBUTARY_BINARY=$(CURDIR)/target/debug/tributary TORCH_EXTENSIONS_DIR=$(FRAMEWORKS_ENV)/extensions \
	  $(FRAMEWORKS_ENV)/bin/python -m pytest -p no:cacheprovider -rP tests/frameworks $(ARGS)

python: $(PYTHON_READY) ## the Python package in target/python, beside PyTorch
	VIRTUAL_ENV=$(PYTHON_ENV) $(PYTHON_ENV)/bin/maturin develop -q $(NATIVE_PROFILE) --locked -m python/Cargo.toml

# Measurements need the optimised native module that a wheel has.
compare paper: NATIVE_PROFILE = --release

wheel: $(PYTHON_READY) ## a wheel of the Python package for Linux, in target/wheels
	$(PYTHON_ENV)/bin/maturin build --release --locked -m python/Cargo.toml

compare: python ## train an example over the fabric and over gloo, with a plot (root; ARGS="transformer.py --rounds 1")
	$(CARGO) build --release --quiet --locked -p tributary
	TRIBUTARY_BINARY=$(CURDIR)/target/release/tributary $(PYTHON_ENV)/bin/python examples/compare.py $(or $(ARGS),cnn.py)

# What is missing of them, each with its Debian package and what it is for.
MISSING_TOOLS = \
	missing() { echo "$$1 ($$2)"; }; \
	command -v ip >/dev/null || missing iproute2 "the network namespaces of labs"; \
	command -v ethtool >/dev/null || missing ethtool "offloads of a lab's interfaces"; \
	command -v nft >/dev/null || missing nftables "losses and cuts in labs"; \
	command -v mnexec >/dev/null || missing mininet "the tests in Mininet"; \
	command -v ping >/dev/null || missing iputils-ping "the tests in Mininet"; \
	python3 -c 'import ensurepip' 2>/dev/null || { missing python3 "the Python package"; missing python3-venv "the Python package"; }

# Without them, or without root, the tests of real interfaces skip and say so.
tools: ## install the Debian packages that the tests' networks need, as root; prints each package and its reason (TOOLS=no: only prints)
	@missing=$$($(MISSING_TOOLS)); \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$(TOOLS)" = no ]; then why="TOOLS=no"; \
	elif [ "$$(id -u)" != 0 ]; then why="that needs root"; \
	elif ! command -v apt-get >/dev/null; then why="there is no apt-get"; fi; \
	if [ -n "$$why" ]; then \
	  echo "Not installed ($$why), so that tests will be left out:"; echo "$$missing" | sed 's/^/  /'; exit 0; \
	fi; \
	echo "Installing Debian packages for the tests (TOOLS=no leaves that out):"; echo "$$missing" | sed 's/^/  /'; \
	apt-get update -q && apt-get install -y -q --no-install-recommends $$(echo "$$missing" | cut -d' ' -f1)

# The profile that the package's program is built with: `demo` builds in a fifth of the time.
PROFILE ?= release
PROGRAM = target/$(PROFILE)/tributary
# What goes into the package beside it.
PACKAGED = target/$(PROFILE)/package

# The folders of the C library, its header and its pkg-config file, as in /usr.
C_LIBRARY = target/$(PROFILE)/c

c-library: ## libtributary, its header and its pkg-config file, in target/release/c (docs/c.md)
	$(CARGO) build --profile $(PROFILE) --locked -p tributary-capi
	rm -rf $(C_LIBRARY) && mkdir -p $(C_LIBRARY)/include $(C_LIBRARY)/lib/pkgconfig
	cp crates/capi/include/tributary.h $(C_LIBRARY)/include
	cp target/$(PROFILE)/libtributary_c.a $(C_LIBRARY)/lib/libtributary.a
	cp target/$(PROFILE)/libtributary_c.so $(C_LIBRARY)/lib/libtributary.so.0
	ln -s libtributary.so.0 $(C_LIBRARY)/lib/libtributary.so
	sed 's/@VERSION@/$(VERSION)/' crates/capi/tributary.pc.in >$(C_LIBRARY)/lib/pkgconfig/tributary.pc

mpi: ## libtributary-mpi.so for this machine's MPI, in target/release/c/lib (docs/mpi.md); skipped without mpicc
	@if command -v mpicc >/dev/null; then $(MAKE) --no-print-directory mpi-library; \
	else echo "SKIPPED: libtributary-mpi.so: there is no mpicc (Debian: libopenmpi-dev)" >&2; fi

.PHONY: mpi-library
mpi-library: c-library
	mpicc -shared -fPIC -O2 -Wall -Wextra crates/capi/mpi/tributary_mpi.c -I$(C_LIBRARY)/include -L$(C_LIBRARY)/lib \
	  -ltributary -Wl,-rpath,'$$ORIGIN' -o $(C_LIBRARY)/lib/libtributary-mpi.so

# The plugin contains libtributary, so that users copy one file into their containers. NCCL unloads plugins, and the library's
# thread would then run code that is gone: -z nodelete.
nccl: c-library ## libnccl-net-tributary.so, a plugin of NCCL, in target/release/c/lib (docs/nccl.md)
	cc -std=gnu11 -shared -fPIC -fvisibility=hidden -O2 -Wall -Wextra crates/capi/nccl/*.c -I$(C_LIBRARY)/include \
	  $(C_LIBRARY)/lib/libtributary.a -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,-z,nodelete -lpthread -ldl -lm \
	  -o $(C_LIBRARY)/lib/libnccl-net-tributary.so

deb: ## a Debian package in target/debian, with units, manual pages and completions (needs cargo-deb: `make deb-tools`)
	@$(CARGO) deb --version >/dev/null 2>&1 || { echo "cargo-deb is missing: \`make deb-tools\` installs it" >&2; exit 1; }
	$(CARGO) build --profile $(PROFILE) --locked -p tributary
	$(MAKE) --no-print-directory nccl
	rm -rf $(PACKAGED) && $(PROGRAM) man $(PACKAGED)/man1
	$(PROGRAM) completions bash >$(PACKAGED)/tributary.bash
	$(PROGRAM) completions zsh >$(PACKAGED)/_tributary
	$(PROGRAM) completions fish >$(PACKAGED)/tributary.fish
	$(CARGO) deb --no-build --no-strip --locked --profile $(PROFILE) -p tributary

deb-tools: ## install cargo-deb, for `make deb`, with `cargo install`
	$(CARGO) install --locked cargo-deb

deny: ## licenses, versions, sources and advisories of dependencies (needs the network, and cargo-deny: `make deny-tools`)
	@$(CARGO) deny --version >/dev/null 2>&1 || { echo "cargo-deny is missing: \`make deny-tools\` installs it" >&2; exit 1; }
	$(CARGO) deny --locked check

deny-tools: ## install cargo-deny, for `make deny` and `make lint`, with `cargo install`
	$(CARGO) install --locked cargo-deny

# Crates whose code does no I/O, so that their own tests should find every change of it.
PURE_CRATES = tributary-wire tributary-topology tributary-protocol tributary-planner tributary-codec tributary-api

mutants: ## change the code of the pure crates, one place at a time, and list changes that no test finds; hours (ARGS="-p tributary-wire"; needs `make mutants-tools`)
	@$(CARGO) mutants --version >/dev/null 2>&1 || { echo "cargo-mutants is missing: \`make mutants-tools\` installs it" >&2; exit 1; }
	@mkdir -p target
	$(CARGO) mutants --output target $(if $(filter -p --package --workspace,$(ARGS)),,$(addprefix -p ,$(PURE_CRATES))) $(ARGS)

mutants-tools: ## install cargo-mutants, for `make mutants`, with `cargo install`
	$(CARGO) install --locked cargo-mutants

# The version of Cargo.toml, and the programs of its archive: each is built from the package of this name.
VERSION = $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
PROGRAMS = tributary tributary-bench
RELEASE = target/release-$(VERSION)
ARCHIVE = tributary-$(VERSION)-linux-$(shell uname -m)

release: release-check ## archive, Debian package, wheel, notes and checksums of a tagged commit, in target/release-VERSION
	rm -rf $(RELEASE) target/debian/tributary_$(VERSION)-* target/wheels/tributary_fabric-$(VERSION)-*
	mkdir -p $(RELEASE)/$(ARCHIVE)
	$(MAKE) --no-print-directory deb wheel
# One by one: Cargo would build packages together with the features that any of them needs.
	set -e; for program in $(PROGRAMS); do \
	  $(CARGO) build --profile $(PROFILE) --locked -p $$program; \
	  strip -o $(RELEASE)/$(ARCHIVE)/$$program target/$(PROFILE)/$$program; \
	done
	cp LICENSE README.md CHANGELOG.md $(RELEASE)/$(ARCHIVE)
	tar -C $(RELEASE) -I 'gzip -n9' --sort=name --owner=0 --group=0 --numeric-owner \
	  --mtime=@$$(git log -1 --format=%ct) -cf $(RELEASE)/$(ARCHIVE).tar.gz $(ARCHIVE)
	rm -r $(RELEASE)/$(ARCHIVE)
	cp target/debian/tributary_$(VERSION)-*.deb target/wheels/tributary_fabric-$(VERSION)-*.whl $(RELEASE)
	$(RELEASE_NOTES) >$(RELEASE)/NOTES.md
	cd $(RELEASE) && sha256sum * >SHA256SUMS && ls -l

# The section of the version, without its heading.
RELEASE_NOTES = awk '/^\#\# /{ours = $$2 == "$(VERSION)"; next} ours' CHANGELOG.md | sed '1{/^$$/d}'

release-check:
	@fail() { echo "No release: $$1" >&2; exit 1; }; \
	changed=$$(git status --porcelain) || exit 1; \
	[ -z "$$changed" ] || fail "commit or remove these files first (\`git status\`):$$(printf '\n%s' "$$changed")"; \
	git tag --points-at HEAD | grep -qxF 'v$(VERSION)' || \
	  fail "HEAD has no tag v$(VERSION), the version in Cargo.toml: \`git tag -a v$(VERSION)\` sets it, \`git switch -d v$(VERSION)\` goes to it"; \
	grep -q '^## $(VERSION) (20' CHANGELOG.md || \
	  fail "CHANGELOG.md has no heading \"## $(VERSION) (DATE)\": write it, commit, and move the tag"

lint: ## formatting, lints and prose, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
# Without the features that only daemons need.
	$(CARGO) clippy -p tributary-demo --locked -- -D warnings
# Links in comments on private items may lead to private items.
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --workspace --no-deps --locked --quiet
	python3 tools/prose/check.py
# Advisories are left to `make deny`, which needs the network for them.
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --offline --locked --log-level error check bans licenses sources; \
	else echo "Dependencies are not checked here: \`make deny-tools\` installs what that needs" >&2; fi
	@if [ -e $(PYTHON_READY) ]; then $(MAKE) --no-print-directory lint-python; \
	else echo "Python and spelling are not linted here: \`make lint-python\` installs what that needs" >&2; fi

lint-python: $(PYTHON_READY) ## formatting, lints and types of all Python, and spelling; part of lint if target/python is installed
	$(PYTHON_ENV)/bin/typos
	$(RUFF) check -q python && $(RUFF) format -q --check python
	$(RUFF) check -q $(OTHER_PYTHON) && $(RUFF) format -q --check $(OTHER_PYTHON)
	cd python && $(PYTHON_ENV)/bin/mypy --no-error-summary

bench: ## packets a second through the compiled P4 program, floats to fixed point, and tags, on one core
	$(CARGO) bench -p tributary-softswitch --bench pipeline
	$(CARGO) bench -p tributary-protocol --bench numbers --bench tags

# Measures the program `tributary` beside it, which is built at the same commit.
BENCH = $(CARGO) build --release --quiet --locked -p tributary -p tributary-bench && target/release/tributary-bench

bench-agent: ## CPU cost of an all-reduce on a host (ARGS="--rounds 5 --json")
	$(BENCH) agent $(ARGS)

bench-plan: ## planning time as a cluster grows (ARGS="--rounds 5 --json")
	$(BENCH) plan $(ARGS)

bench-scale: ## the fabric in clusters of thousands of workers, simulated (ARGS="--studies jobs --json")
	$(BENCH) scale $(ARGS)

bench-switch: ## slices a second of the embedded switch, of a bare loop and of BMv2 (ARGS="--runs 5 --seconds 3")
	$(BENCH) switch $(ARGS)

bench-forwarding: ## packets a second of forwarding programs on the embedded switch and on BMv2 (ARGS="--runs 5 --seconds 3")
	$(BENCH) forwarding $(ARGS)

export TRIBUTARY_BENCH_PYTHON ?= $(or $(wildcard $(PYTHON_ENV)/bin/python),python3)

bench-allreduce: ## the all-reduce, compared with gloo's and Open MPI's (ARGS="--rate 50mbit --out DIR")
	$(BENCH) allreduce $(ARGS)

bench-tools: $(PYTHON_READY) ## install gloo (PyTorch, 5 GB) and Open MPI for bench-allreduce (Debian; needs root)
	apt-get update -q && apt-get install -y -q --no-install-recommends \
	  openmpi-bin libopenmpi-dev gcc libc6-dev iproute2 ethtool nftables fonts-dejavu-core

# Parts that need PyTorch: for gloo, or for the models of `examples/`. The others do without.
PAPER_TORCH = allreduce time-points pytorch policies-cnn policies-transformer
PAPER_NEEDS = $(if $(ARGS),$(if $(filter $(PAPER_TORCH),$(ARGS)),python) $(if $(filter allreduce mpi,$(ARGS)),bench-tools) $(if $(filter mpi,$(ARGS)),mpi),python bench-tools mpi)

paper: $(PAPER_NEEDS) ## make every figure and table of docs/results from scratch: two hours; root (ARGS="hops policies-digits" for a part)
	$(CARGO) build --release --quiet --locked -p tributary -p tributary-bench -p tributary-paper
	$(CARGO) run --release --quiet --locked -p tributary-paper -- --python $(PYTHON_ENV)/bin/python $(ARGS)

simulate: ## time and bytes of the protocol under loss, on a virtual clock
	$(BENCH) simulate $(ARGS)

verify: ## check the protocol in every state that a network can bring it to (ARGS="--json"), then random scenarios; minutes
	$(CARGO) run --release --quiet --locked -p tributary-verify -- $(ARGS)
	$(CARGO) run --release --quiet --locked -p tributary-sim --example matrix -- --until 100000000 >&2

soak: ## random scenarios on a virtual clock until interrupted; prints the seed of each failure (ARGS="--first 1000")
	$(CARGO) run --release --quiet --locked -p tributary-sim --example matrix -- $(ARGS)

fuzz: ## fuzz the parsers of outside input, guided by coverage (ARGS="--target frames --seconds 600")
	$(CARGO) run --quiet --locked -p tributary-fuzz -- $(ARGS)

mininet: tools ## a topology in Mininet, with its prompt; root (ARGS="--switch bmv2 --run")
	$(CARGO) build --release --quiet --locked -p tributary
	$(PYTHON) mininet/run.py $(ARGS)

p4: ## compile the P4 program again (needs p4c-bm2-ss on the PATH)
	$(MAKE) -C p4

protos: ## generate the Rust of the protobuf files again
	TRIBUTARY_REGENERATE=1 $(CARGO) test --locked -p tributary-api -p tributary-p4runtime --test suite generated

vectors: ## write the packets and sums of the protocol's vectors again
	TRIBUTARY_REGENERATE=1 $(CARGO) test --locked -p tributary-protocol --test suite vectors
