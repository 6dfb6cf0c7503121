"""Matrix instructions (MFMA, SMFMAC): their table, their register layouts, and the rules of their arithmetic."""
