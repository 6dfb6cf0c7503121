"""What a RUN does to memory, as plainly as possible: one byte at a time, nothing shared with the device."""

from __future__ import annotations

FENCE_WAIT, FEED_ERROR, CMD_ERROR, MEM_ERROR, SLOT_ERROR, USER_FENCE_WAIT = (1 << bit for bit in range(6))


class Failed(Exception):
    """A user command failed with this interrupt."""

    def __init__(self, interrupt: int) -> None:
        self.interrupt = interrupt


class Oracle:
    """Memory from `base` on, contexts' records at `base`; `touched` are the offsets that user commands wrote."""

    def __init__(self, base: int, memory: bytes) -> None:
        self.base = base
        self.memory = bytearray(memory)
        self.touched: set[int] = set()
        self.intr = 0

    def at(self, address: int) -> int:
        if not 0 <= address - self.base < len(self.memory):
            raise Failed(MEM_ERROR)
        return address - self.base

    def word(self, address: int, size: int = 4) -> int:
        return sum(self.memory[self.at(address + i)] << 8 * i for i in range(size))

    def physical(self, table: int, virtual: int) -> int:
        if table >> 40 or table % 4096 or virtual >= 1 << 22:
            raise Failed(MEM_ERROR)
        entry = self.word(table + virtual // 4096 * 4)
        if not entry & 1:
            raise Failed(MEM_ERROR)
        return (entry >> 4) * 4096 + virtual % 4096

    def run(self, context: int, table: int, offset: int, size: int) -> None:
        record = self.base + 192 * context
        if self.memory[self.at(record + 132)] & 1:
            return
        try:
            for index in range(size // 20):
                place = offset + 20 * index
                self.command(record, [self.word(self.physical(table, place + 4 * i)) for i in range(5)])
        except Failed as failed:
            self.memory[self.at(record + 132)] |= 1
            self.intr |= failed.interrupt

    def command(self, record: int, words: list[int]) -> None:
        match words[0] & 15:
            case 0:
                pass
            case 1:
                counter = (self.word(record + 128) + 1) % (1 << 32)
                for i in range(4):
                    self.memory[self.at(record + 128 + i)] = counter >> 8 * i & 255
                self.intr |= USER_FENCE_WAIT
            case 2:
                self.fill(record, *words[1:])
            case _:
                raise Failed(CMD_ERROR)

    def fill(self, record: int, value: int, slot: int, start: int, length: int) -> None:
        table = self.word(record + 8 * slot, 8) if slot < 16 else 0
        if not table:
            raise Failed(SLOT_ERROR)
        if length and (table >> 40 or table % 4096):
            raise Failed(MEM_ERROR)
        places, failed = [], None
        virtual = start
        while virtual < start + length and failed is None:
            try:
                page = self.physical(table, virtual)
            except Failed as caught:
                failed = caught
                continue
            behind = min(start + length, (virtual // 4096 + 1) * 4096)
            places += [(page + i, virtual + i - start) for i in range(behind - virtual)]
            virtual = behind
        for address, k in places:
            offset = self.at(address)
            self.memory[offset] = value >> 8 * (k % 4) & 255
            self.touched.add(offset)
        if failed is not None:
            raise failed
