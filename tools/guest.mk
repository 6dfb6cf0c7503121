# make guest              boot a Debian kernel in QEMU with our own Acceldev driver, and run its tests there
# make guest KO=path      likewise with your module (built for the guest's kernel: make guest-module DIR=path)
# make guest-root         fetch that kernel and QEMU 10.1 or later into build/guest/root (some minutes)
# TESTS="a b" are programs to run in the guest, statically linked, instead of ours

GUEST := build/guest
GUEST_ROOT := $(GUEST)/root
GUEST_STAMP := $(GUEST_ROOT)/etc/debian_version
GUEST_EXAMPLE := $(GUEST)/acceldev-linux
DIR ?= examples/acceldev-linux
KO ?= $(GUEST_EXAMPLE)/acceldev.ko
TESTS ?= $(GUEST_EXAMPLE)/acceldev-test

.PHONY: guest guest-root guest-module

guest-root: $(GUEST_STAMP)

$(GUEST_STAMP):
	@sh tools/guest-root.sh $(GUEST_ROOT)

guest-module: $(GUEST_STAMP)
	@sh tools/guest-build.sh $(GUEST_ROOT) $(DIR) $(GUEST)/$(notdir $(abspath $(DIR)))

$(GUEST_EXAMPLE)/acceldev.ko $(GUEST_EXAMPLE)/acceldev-test: $(wildcard examples/acceldev-linux/*) | $(GUEST_STAMP)
	@sh tools/guest-build.sh $(GUEST_ROOT) examples/acceldev-linux $(GUEST_EXAMPLE)

guest: $(USE) $(KO) $(TESTS)
	$(BIN)/python tools/guest.py --root $(GUEST_ROOT) --ko $(KO) $(TESTS)
