"""Matrix instructions (MFMA) as compiled code, one function per instruction; see `library`."""
