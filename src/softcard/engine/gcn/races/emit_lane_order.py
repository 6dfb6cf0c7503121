"""The emitter of the check `lanes` in translated code, which follows the race check of each access.

See `native_lane_order`. A side exit leaves conflicting accesses to the reference engine, which reports them."""

from __future__ import annotations

from softcard.engine.gcn.jit.emit.emit_helpers import LIKELY
from softcard.engine.gcn.races.emit_race_shapes import Access
from softcard.engine.gcn.races.emit_races import RaceHooks
from softcard.engine.gcn.races.layout import GLOBAL, LOAD, NUMBER_BITS, SIZE_AT, SPACE_AT
from softcard.ir.operand import Operand
from softcard.isa.gcn.state import EXEC


class LaneOrderHooks(RaceHooks):
    """The emitter of calls of the race check and of the check `lanes`."""

    def _end_check(self, access: Access) -> None:
        """Emit the check of the lanes of a lane vector against the other lanes of the wave."""
        text, on = self.text, self.text.fresh("on")
        where = self._first, self._stored_addresses(access.address), self._stored_values(access)
        status = self._call(
            "check_lanes", access.key, access.what, *where, text.lanes, access.lanes, before=(self.vectors.state,)
        )
        text.branch(status.eq(0), on, f"leave{self.vectors.label}", LIKELY)
        text.start(on)

    def _stored_values(self, access: Access) -> Operand:
        """Emit the store of the dwords that lanes store to the stack; return the host address of the first one."""
        text, align = self.text, 4 * self.text.lanes
        kind = text.itype(32, True)
        room = text.slot(f"%{self.vectors.base.prefix}stored", f"[4 x {kind}]", f", align {align}")
        for number, value in enumerate(access.values):
            room.offset(align * number).store(text.bits(value, True), align=align)
        return room

    def scalar_access(self, dwords: int, address: Operand) -> None:
        """Emit the checks of a scalar load of dwords."""
        super().scalar_access(dwords, address)
        what, key = LOAD | GLOBAL << SPACE_AT | 4 * dwords << SIZE_AT, self._pc() << NUMBER_BITS
        exec_mask = self.text.bits(self.vectors.scalars.whole(EXEC))
        self._or_step(self._call("check_wave", key, what, address, exec_mask))
