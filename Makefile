# Darter: build, run, test. `make help` says what there is.
#
# `make run` and `make test` first install what is missing (setup/setup.sh). That takes milliseconds when nothing is.

SHELL := /bin/sh
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
export PATH := $(PATH):$(if $(CARGO_HOME),$(CARGO_HOME),$(HOME)/.cargo)/bin

CARGO ?= cargo
MUSL_CC ?= musl-gcc
KERNEL_TARGET := x86_64-unknown-none
KERNEL := target/$(KERNEL_TARGET)/kernel/darter-kernel
LOCKDEP_KERNEL := target/$(KERNEL_TARGET)/lockdep/darter-kernel
KERNEL_FLAGS := -p darter-kernel --target $(KERNEL_TARGET)
# The kernel that `make test` boots: darter, linux or a file.
DARTER_KERNEL ?= darter
RUNS ?= 5
CPUS ?= 1,2,4
# What `make bench-large` runs.
LARGE ?= faultzf faultfile forkexit vforkexec mmap tmpfs openclose

.PHONY: help setup build host kernel lockdep guest benchmarks plugin run bench bench-large scheduler-report calls calls-gate growth growth-gate report browser walks exits allocators shares shares-gate loads builds builds-setup test counts hosted-test booted-test lockdep-test gate check table fuzz fuzz-test fuzz-compare fuzz-planted fuzzer clean

help: ## What there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F '|' '{ printf "%-20s %s\n", $$1, $$2 }'
	@echo '  ./darter run -- CMD  run a program on Darter (builds what is stale); ./darter --help'

setup: ## Install what is missing: toolchain, QEMU, musl-gcc, busybox, a Linux image to compare with
	@setup/setup.sh

run: build ## Build, boot Darter and Linux in turn, run the benchmarks at 1, 2 and 4 CPUs, print the table (about ten minutes)
	target/release/darter bench --vs linux --cpus $(CPUS) --runs $(RUNS) --seconds 0.5 --budget 600 --json target/bench.json

test: setup hosted-test booted-test lockdep-test fuzz-test counts shares-gate growth-gate ## All tests, hosted and booted, two minutes of the fuzzer, and the gates of costs, shares, calls and growth

gate: build ## Instructions, shared lines and transfers against tests/gate/table.toml (--update: darter lines --gate --update)
	@[ "$(DARTER_KERNEL)" = linux ] || target/release/darter lines --gate --kernel $(DARTER_KERNEL)

# Each uses little more than one core, and what they count does not depend on how fast they are.
counts: build ## `make gate` and `make calls-gate` beside each other
	@$(MAKE) --no-print-directory -j2 -Otarget gate calls-gate

scheduler-report: ## The scheduler's own code, simulated on 1 to 256 CPUs: docs/scheduler.md (two minutes)
	cd kernel && SCHEDULER_REPORT=$(CURDIR)/docs/scheduler.md cargo test -q --release -p darter-kernel -- simulation::report --ignored --nocapture

calls: build ## What each system call shares, by itself and beside others, Darter beside Linux: docs/calls.md (an hour and a half; goes on where it was broken off)
	target/release/darter lines --calls --vs linux --beside idle,busy,program --json target/calls.json --resume --svg docs/calls.svg --page docs/calls.md

# What runs beside the calls in the gate, after the calls by themselves.
BESIDE ?= idle
calls-gate: build ## Shared lines of every system call, by itself and beside BESIDE, against tests/gate/calls.toml (two to three minutes)
	@[ "$(DARTER_KERNEL)" = linux ] || target/release/darter lines --calls --gate --beside $(BESIDE) --kernel $(DARTER_KERNEL)

growth: build ## What system calls cost among 10 to 10,000 of what they might look at, Darter beside Linux: docs/growth.md (ten minutes)
	target/release/darter growth --vs linux --page docs/growth.md

# A tree's depth jumps with the addresses of what is in it: among watches three figures do not tell that from a walk, four do.
growth-gate: build ## Costs that grow, against tests/gate/growth.toml (a minute and a half; four where others use the machine)
	@[ "$(DARTER_KERNEL)" = linux ] || target/release/darter growth --gate --kernel $(DARTER_KERNEL) children descriptors elsewhere group links locks mappings mounts names pollers queued readers sessions sharers threads timerfds timers waiters zombies
	@[ "$(DARTER_KERNEL)" = linux ] || target/release/darter growth --gate --kernel $(DARTER_KERNEL) --sizes 10,100,1000,10000 watches

# The programs and libraries are no part of the ordinary guest (setup/allocators.sh, bench/allocators).
allocators: build ## malloc and free by threads with musl, glibc, jemalloc and mimalloc, Darter beside Linux: docs/allocators.md
	@setup/allocators.sh
	@$(MAKE) --no-print-directory -s -C bench/allocators OUT=$(CURDIR)/target/allocators
	target/release/darter allocators --vs linux --page docs/allocators.md

check: setup ## Formatting and lints, warnings as errors; which room uses which (tests/structure/rooms.toml)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) clippy $(KERNEL_FLAGS) -- -D warnings
	$(CARGO) run --quiet -p darter-structure
	$(CARGO) run --quiet -p darter-table -- check

table: build ## What the ABI programs show of each call and flag (tests/table/shown), and the page of it (docs/syscalls.md)
	tests/run --shown tests/table/shown
	$(CARGO) run --quiet -p darter-table -- page

report: build ## One page of rates, instructions, lines, the model and the grid, Darter beside Linux: target/report.html (long; REPORT="mmap --cpus 2" chooses)
	target/release/darter bench --vs linux --with instructions,lines,grid --report target/report.html $(REPORT)

browser: ## Install Chromium, in which a hosted test measures that page at the width of a phone and of a desktop (it is skipped without)
	@setup/browser.sh

walks: build ## How a contended lock is found, seen and mended, with what the tools print: docs/contention.md (two minutes)
	@docs/walks/contention.sh

exits: build ## How often an operation makes a CPU leave the guest under KVM, Darter beside Linux: docs/exits.md (five minutes)
	target/release/darter exits --vs linux --page docs/exits.md

shares: build ## Which part of the CPUs busy processes get, and how late a sleeper wakes among them, Darter beside Linux: docs/shares.md (half an hour)
	target/release/darter shares --vs linux --page docs/shares.md

# Two CPUs and sixteen, a minute: the whole takes ten (`darter shares --gate --cpus 2,4,16`).
shares-gate: build ## Shares of busy processes, and how late a sleeper wakes among them, against tests/gate/shares.toml
	@[ "$(DARTER_KERNEL)" = linux ] || target/release/darter shares --gate --cpus 2,16 --load 1.5,2.5 --kernel $(DARTER_KERNEL)

loads: build ## Tasks that sleep and wake, on 2 and 4 CPUs, Darter beside Linux: docs/loads.md (a quarter of an hour)
	target/release/darter loads --vs linux --page docs/loads.md

builds: build builds-setup ## gcc and tcc building C programs on this machine's files, Darter beside Linux: docs/builds.md (half an hour)
	target/release/darter builds --vs linux --page docs/builds.md

# No part of the ordinary guest either (setup/builds.sh, bench/builds).
builds-setup: setup ## What `darter builds` builds, and with
	@setup/builds.sh
	@$(MAKE) --no-print-directory -s -C bench/builds OUT=$(CURDIR)/target/builds

bench: build ## The benchmarks, Darter beside Linux; BENCH="faultzf --cpus 2" chooses
	target/release/darter bench --vs linux $(BENCH)

bench-large: build ## Larger machines: rates with 16 and 48 CPUs, lines with 16 beside Linux and with 48 on two sockets, the model's curves
	target/release/darter bench --vs linux --cpus 16,48 --runs 1 --seconds 0.3 --memory 4G $(LARGE)
	target/release/darter lines --vs linux --cpus 2,4,16 --memory 4G --predict --svg target/predicted.svg $(LARGE)
	target/release/darter lines --cpus 48 --sockets 2 --memory 4G $(LARGE)

build: setup host kernel guest benchmarks plugin ## Everything that a machine needs

host: setup ## The darter command
	@$(CARGO) build --quiet --release -p darter

kernel: setup ## The Darter kernel
	@$(CARGO) build --quiet --profile kernel $(KERNEL_FLAGS)

lockdep: setup ## The kernel that checks lock order at every lock, beside the other
	@$(CARGO) build --quiet --profile lockdep $(KERNEL_FLAGS) --features lockdep

guest: target/guest/init target/guest/line-selftest target/guest/exits ## The guest's first program, the line detector's test, and the operations of `darter exits`

target/guest/init: host/guest/init.c host/guest/frames.h host/guest/live.h host/guest/watch.h host/guest/audit.h lines/guest/markers.h | setup
	@mkdir -p $(@D)
	$(MUSL_CC) -static -Os -std=gnu11 -Wall -Wextra -Ilines/guest -o $@ $<

target/guest/exits: host/guest/exits.c | setup
	@mkdir -p $(@D)
	$(MUSL_CC) -static -O2 -std=gnu11 -Wall -Wextra -pthread -o $@ $<

target/guest/line-selftest: lines/guest/selftest.c lines/guest/markers.h | setup
	@mkdir -p $(@D)
	$(MUSL_CC) -static -O2 -std=gnu11 -Wall -Wextra -pthread -o $@ $<

benchmarks: setup ## The benchmarks, into target/bench, and the loads of the scheduler, into target/sched
	@if [ -e bench/Makefile ]; then $(MAKE) --no-print-directory -s -C bench OUT=$(CURDIR)/target/bench; fi
	@$(MAKE) --no-print-directory -s -C bench/sched OUT=$(CURDIR)/target/sched

plugin: setup ## The QEMU plugin that counts instructions and cache lines
	@$(CARGO) build --quiet --release -p darter-lines

hosted-test: setup ## The tests that run as programs of this machine, models of the protocols among them
	$(CARGO) test --quiet

booted-test: build ## The ABI programs against Linux, and the scripts of tests/boot
	tests/run --kernel $(DARTER_KERNEL); abi=$$?; target/release/darter test --kernel $(DARTER_KERNEL) && exit $$abi

# The booted tests that `make lockdep-test` runs beside the ABI programs.
LOCKDEP_TESTS ?= lock-order audit poison statuses stack leaks terminal share overlay live
lockdep-test: build lockdep fuzzer stack ## The same on the lockdep kernel, with a few of the scripts and the cases that the fuzzer found: a lock out of order is a panic
	@if [ "$(DARTER_KERNEL)" = darter ]; then \
	    tests/run --kernel $(LOCKDEP_KERNEL) --cpus 4 --shown target/shown; abi=$$?; \
	    $(CARGO) run --quiet -p darter-table -- check target/shown && \
	    target/release/darter test --kernel $(LOCKDEP_KERNEL) $(LOCKDEP_TESTS) && \
	    target/release/darter-fuzz replay && exit $$abi; \
	fi

# Seconds of `make fuzz`.
FUZZ_SECONDS ?= 600
fuzz: build lockdep fuzzer ## Programs made from the table of system calls, on the kernel with checks, for FUZZ_SECONDS (tests/fuzz/README.md)
	target/release/darter-fuzz run --seconds $(FUZZ_SECONDS) $(FUZZ)

# Ends within two minutes. Where the computer is slower or busy, fewer of the programs run; the programs are the same.
fuzz-test: build lockdep fuzzer ## The programs of a fixed seed, for a minute and a half
	@[ "$(DARTER_KERNEL)" != darter ] || target/release/darter-fuzz run --fixed --seconds 85 --seed 1 --cpus 1,2,5,16 --batch 100 --shrink 120

fuzz-compare: build lockdep fuzzer ## Programs of one task, compared with Linux call by call
	target/release/darter-fuzz compare --count 1000 --batch 250 $(FUZZ)

# A kernel that panics for some arguments of one call: found, made small and kept in target/planted/found, where it fails again, but not on
# the kernel without the plant.
PLANTED := target/planted/$(KERNEL_TARGET)/lockdep/darter-kernel
fuzz-planted: build lockdep fuzzer ## Does the fuzzer find a panic that was planted? (two to ten minutes)
	$(CARGO) build --quiet --profile lockdep $(KERNEL_FLAGS) --features lockdep,planted --target-dir target/planted
	rm -rf target/planted/found
	! target/release/darter-fuzz run --kernel $(PLANTED) --seconds 600 --seed 1 --fresh --found target/planted/found --cases 1 --shrink 120
	! target/release/darter-fuzz replay --kernel $(PLANTED) target/planted/found/died--*
	target/release/darter-fuzz replay target/planted/found/died--*

fuzzer: setup target/fuzz/executor ## The fuzzer
	@$(CARGO) build --quiet --release -p darter-fuzz

EXECUTOR := $(addprefix tests/fuzz/guest/,executor.c program.c home.c)
target/fuzz/executor: $(EXECUTOR) tests/fuzz/guest/executor.h lines/guest/markers.h host/guest/audit.h | setup
	@mkdir -p $(@D)
	$(MUSL_CC) -static -O1 -std=gnu11 -Wall -Wextra -fno-strict-aliasing -Ilines/guest -Ihost/guest -o $@ $(EXECUTOR)

stack: kernel lockdep ## How deep the kernel's stack gets, and its recursions, against tests/stack/stack.toml
	$(CARGO) run --quiet --release -p darter-stack $(KERNEL) $(LOCKDEP_KERNEL)

clean: ## Remove what was built; .cache (Linux image) stays
	$(CARGO) clean
