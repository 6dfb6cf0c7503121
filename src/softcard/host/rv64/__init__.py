"""RV64 programs on one hart, without a device."""
