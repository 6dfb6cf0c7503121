"""RV64 programs by themselves, without a device around them."""
