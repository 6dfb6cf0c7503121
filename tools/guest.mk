# make guest              boot a Debian kernel in QEMU with our own Acceldev driver, and run its tests there
# make guest KO=path      likewise with your module (built for the guest's kernel: make guest-module DIR=path)
# make guest-module       build the module and the programs of DIR=path for the guest's kernel, into build/guest/path
# make guest-root         fetch that kernel and QEMU 10.1 or later, once: 250 MB to download, 600 MB in your cache
# TESTS="a b" are programs or scripts to run in the guest instead of ours, each at most LIMIT=60 seconds

GUEST := build/guest
GUEST_ROOT := $(GUEST)/root
# Newer than what was built for another kernel.
GUEST_STAMP := $(GUEST)/.root
GUEST_EXAMPLE := $(GUEST)/acceldev-linux
DIR ?= examples/acceldev-linux
KO ?= $(GUEST_EXAMPLE)/acceldev.ko
TESTS ?= $(GUEST_EXAMPLE)/acceldev-test
LIMIT ?= 60

.PHONY: guest guest-root guest-module always

guest-root: $(GUEST_STAMP)

$(GUEST_STAMP): always
	@sh tools/guest-root.sh $(GUEST_ROOT)

guest-module: $(GUEST_STAMP)
	@sh tools/guest-build.sh $(GUEST_ROOT) $(DIR) $(GUEST)/$(notdir $(abspath $(DIR)))

$(GUEST_EXAMPLE)/acceldev.ko $(GUEST_EXAMPLE)/acceldev-test &: $(wildcard examples/acceldev-linux/*) $(GUEST_STAMP)
	@sh tools/guest-build.sh $(GUEST_ROOT) examples/acceldev-linux $(GUEST_EXAMPLE)

guest: $(USE) $(GUEST_STAMP) $(KO) $(TESTS)
	$(BIN)/python tools/guest.py --root $(GUEST_ROOT) --ko $(KO) --limit $(LIMIT) $(TESTS)
