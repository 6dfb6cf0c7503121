"""Sentences of the ROCm Code Object document about kernels: first registers, headers, float modes, memory model.

What obeys them stands in `launch.hsa`, `image.hsa`, `engine.gcn` and `memory_model`.
"""

from __future__ import annotations

from typing import Final

from understudy.core.rule import Fidelity, Rule


def _rule(name: str, clause: str, text: str, fidelity: Fidelity = Fidelity.EXACT) -> Rule:
    return Rule(f"hsa/{name}", clause, text, fidelity)


_CHOSEN: Final = Fidelity.CHOSEN
_FILES: Final = "Finalizer, Code Object, Executable and Loader"
_STATE: Final = "Initial kernel register state"
_GLOBAL: Final = "Global/Readonly/Kernarg segments"
_M0: Final = "M0 Register"
_MODEL: Final = "Memory model Overview"
_CODE: Final = "AMD Kernel Code Object amd_kernel_code_t"
_RSRC1: Final = "Compute shader program settings 1 amd_compute_pgm_rsrc1_t"
_RSRC2: Final = "Compute shader program settings 2 amd_compute_pgm_rsrc2_t"

IS_PTR64: Final = _rule(
    "is-ptr64", _CODE, "is_ptr64 must match SH_MEM_CONFIG.PTR32 (GFX7), SH_MEM_CONFIG.ADDRESS_MODE (GFX8+)"
)

CODE_RULES: Final[tuple[Rule, ...]] = (
    _rule("elf-format", _FILES, "AMD code objects use the ELF format"),
    # ---- first registers ----
    _rule("dense-sgprs", _STATE, "enabled SGPRs are numbered densely from SGPR0; disabled ones have no number"),
    _rule("sgpr-order", _STATE, "the order is that of the table: private buffer, dispatch, queue, kernarg, id, ..."),
    _rule("sixteen-user-sgprs", _STATE, "only the first 16 user SGPRs are initialised"),
    _rule("system-sgprs", _STATE, "system SGPRs follow immediately, in the order of the table"),
    _rule("user-sgpr-count", _STATE, "the number of enabled registers must match user_sgpr_count", _CHOSEN),
    _rule("private-size", _STATE, "Private Segment Size is the packet's, rounded up to a word"),
    _rule("grid-counts", _STATE, "Grid Work-Group Count is the grid over the group, rounded up", _CHOSEN),
    _rule("work-group-ids", _STATE, "Work-Group Id X, Y, Z: any combination including none", _CHOSEN),
    _rule("work-group-info", _STATE, "Work-Group Info is first_wave, 14 zeros, ordered append term, waves"),
    _rule("wave-offset", _STATE, "Private Segment Wave Byte Offset counts from the queue's scratch base"),
    _rule("work-item-ids", _STATE, "VGPRs are (X), (X, Y) or (X, Y, Z) of the work-item"),
    _rule("partial-groups", _STATE, "partial work-groups have the lanes of the work-items that exist", _CHOSEN),
    # ---- prologue ----
    _rule("kernarg-scalar", _GLOBAL, "scalar loads read the kernarg segment where the offset is uniform"),
    _rule("buffer-mtype", _GLOBAL, "MTYPE of the global buffer's V# gives the memory coherence asked for", _CHOSEN),
    _rule("global-instructions", _GLOBAL, "GFX9 reaches global memory by GLOBAL_* instructions"),
    _rule("m0-limit", _M0, "GFX7/GFX8: LDS accesses need M0 with the size of LDS; the maximum will do"),
    # ---- memory model ----
    _rule("scopes", _MODEL, "scopes are work-item, wavefront, work-group, agent, system"),
    _rule("orders", _MODEL, "orders are scacq, screl, scar, rlx"),
    _rule("flat-both", _MODEL, "a flat operation takes the constraints of global and group segment", _CHOSEN),
    _rule("global-table", "Memory operation constraints for global segment", "the sequence of each operation"),
    _rule("group-table", "Memory operation constraints for group segment", "the sequence of each operation", _CHOSEN),
    _rule("fence-table", "Memory fence constraints", "the sequence of each fence"),
    # ---- amd_kernel_code_t ----
    _rule("kernel-code-layout", _CODE, "amd_kernel_code_t is 256 bytes with the fields at the given bits"),
    _rule("kernel-code-version", _CODE, "major version 1; minor versions are backward compatible", _CHOSEN),
    _rule("entry-offset", _CODE, "the entry is a byte offset, possibly negative, from the object's start"),
    _rule("code-properties", _CODE, "bits 448 to 470 enable registers and describe the code"),
    _rule("private-element-size", _CODE, "private_element_size is the interleave size in bytes", _CHOSEN),
    IS_PTR64,
    _rule("reserved-zero", _CODE, "reserved fields must be 0", _CHOSEN),
    _rule("alignments", _CODE, "alignments and wavefront size are powers of two", _CHOSEN),
    _rule("dynamic-lds", _CODE, "the packet's group segment size, static and dynamic, is what is allocated"),
    _rule("machine-kind", "AMD Machine Kind amd_machine_kind_t", "0 undefined, 1 AMDGPU"),
    # ---- rsrc1 and rsrc2 ----
    _rule("granulated-counts", _RSRC1, "registers are counted in granules, less one"),
    _rule("round-modes", "Float Round Mode amd_float_round_mode_t", "0 even, 1 +inf, 2 -inf, 3 zero, at wave start"),
    _rule("denorm-modes", "Denorm Mode amd_float_denorm_mode_t", "0 flush both, 1 flush results, 2 inputs, 3 none"),
    _rule("dx10-clamp", _RSRC1, "enable_dx10_clamp starts waves in DX10 clamp mode"),
    _rule("ieee-mode", _RSRC1, "enable_ieee_mode starts waves in IEEE mode"),
    _rule("lds-from-packet", _RSRC2, "CP uses the rounded value from the dispatch packet, not granulated_lds_size"),
    _rule("vgpr-ids-enabled", _RSRC2, "enable_vgpr_workitem_id 0, 1, 2 enable X, XY, XYZ"),
)
"""In the document's order."""
