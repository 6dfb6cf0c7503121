"""Record how the generated hardware of a Fletcher register map answers on its bus: tests/vectors/fletcher/bus/*.txt.

    python tools/fletcher_bus.py tests/vectors/fletcher/regs.mmio.yaml --accesses 400 > bus/regs.txt

Needs vhdmmio 0.0.3 (PyPI, for the Python that runs this) and ghdl (Debian: ghdl-mcode); nothing of what they make is
kept but the answers. The accesses are random, from a seed, with a liking for the places where something happens. A line
of the recording is

    p NAME VALUE                               the kernel's side drives a status field
    r ADDRESS => RESPONSE DATA
    w ADDRESS DATA STROBES => RESPONSE PULSES CONTROLS

all numbers hex; PULSES has a bit per strobe field, CONTROLS are all control fields, in map order, joined by commas.
"""

# ruff: noqa: T201  # a command-line tool prints

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

FIELD = re.compile(
    r"- address: (\d+)\s+name: (\w+)\s+doc: [^\n]*\s+bitrange: (\d+)(?:\.\.(\d+))?\s+behavior: (\w+)", re.MULTILINE
)


@dataclass(frozen=True)
class Field:
    """One field of the description."""

    address: int
    name: str
    width: int
    lsb: int
    behaviour: str


def read_fields(text: str) -> tuple[list[Field], int]:
    """The fields of a description, and the width of its bus."""
    found = []
    for address, name, high, low, behaviour in FIELD.findall(text):
        lsb = int(low or high)
        found.append(Field(int(address), name, int(high) - lsb + 1, lsb, behaviour))
    width = re.search(r"bus-width:\s+(\d+)", text)
    assert found
    assert width
    return found, int(width[1])


def random_accesses(fields: list[Field], bus: int, count: int, seed: int) -> list[str]:
    """Stimuli: mostly words of the map, some far away, in runs of neighbours."""
    noise = random.Random(seed)
    step = bus // 8
    end = max(field.address + (field.lsb + field.width + 7) // 8 for field in fields)
    status = [field for field in fields if field.behaviour == "status"]
    wide = [field for field in fields if field.lsb + field.width > bus]
    lines = []
    while len(lines) < count:
        base = noise.randrange(fields[0].address, end) // step * step
        if wide and noise.random() < 0.5:
            base = noise.choice(wide).address // step * step + noise.choice((0, 0, step))
        if noise.random() < 0.1:
            base = noise.choice((0, 4, 64, 80, 128, 256, 1 << 12, 1 << 31, (1 << 32) - 4, end, end + step))
        base += noise.choice((0, 0, 0, 0, 1, 2, 3))
        kind = noise.random()
        if kind < 0.15 and status:
            field = noise.choice(status)
            lines.append(f"p {field.name} {noise.getrandbits(field.width):x}")
            continue
        for number in range(noise.choice((1, 1, 2, 2, 4))):
            at = base + number * step & 0xFFFFFFFF
            if kind < 0.55:
                lines.append(f"r {at:x}")
            else:
                data = noise.choice((noise.getrandbits(bus), (1 << bus) - 1, 0, 1, 2, 4))
                strobes = noise.choice(((1 << step) - 1,) * 3 + (noise.getrandbits(step),))
                lines.append(f"w {at:x} {data:x} {strobes:x}")
    return lines


def testbench(fields: list[Field], bus: int) -> str:
    """A test bench that performs the accesses of the file `stimuli` and writes `answers`."""
    status = [field for field in fields if field.behaviour == "status"]
    control = [field for field in fields if field.behaviour == "control"]
    strobe = [field for field in fields if field.behaviour == "strobe"]
    signals, ports = [], []
    for field in fields:
        port = f"f_{field.name}_write_data" if field.behaviour == "status" else f"f_{field.name}_data"
        kind = "std_logic" if field.width == 1 else f"std_logic_vector({field.width - 1} downto 0)"
        zero = "'0'" if field.width == 1 else "(others => '0')"
        signals.append(f"signal s_{field.name} : {kind} := {zero};")
        ports.append(f"{port} => s_{field.name}")
    drives = "\n".join(
        f"when {number} => s_{field.name} <= value({'0' if field.width == 1 else f'{field.width - 1} downto 0'});"
        for number, field in enumerate(status)
    )
    pulses = "\n".join(
        f"if s_{field.name} = '1' then pulses({number}) := '1'; end if;" for number, field in enumerate(strobe)
    )
    shows = "\n".join(
        f"value := (others => '0'); value({'0' if field.width == 1 else f'{field.width - 1} downto 0'}) := "
        f's_{field.name}; write(answer, string\'(",")); hwrite(answer, value);'
        for field in control
    )
    return f"""
library ieee; use ieee.std_logic_1164.all; use ieee.numeric_std.all; use std.textio.all;
entity bench is end;
architecture run of bench is
signal clk, rst : std_logic := '1';
signal awvalid, awready, wvalid, wready, bvalid, arvalid, arready, rvalid : std_logic := '0';
signal awaddr, araddr : std_logic_vector(31 downto 0) := (others => '0');
signal wdata, rdata : std_logic_vector({bus - 1} downto 0) := (others => '0');
signal wstrb : std_logic_vector({bus // 8 - 1} downto 0) := (others => '0');
signal bresp, rresp : std_logic_vector(1 downto 0);
signal ended : boolean := false;
{chr(10).join(signals)}
begin
clk <= not clk after 5 ns when not ended else '0';
file_inst: entity work.mmio port map (kcd_clk => clk, kcd_reset => rst,
mmio_awvalid => awvalid, mmio_awready => awready, mmio_awaddr => awaddr,
mmio_wvalid => wvalid, mmio_wready => wready, mmio_wdata => wdata, mmio_wstrb => wstrb,
mmio_bvalid => bvalid, mmio_bready => '1', mmio_bresp => bresp,
mmio_arvalid => arvalid, mmio_arready => arready, mmio_araddr => araddr,
mmio_rvalid => rvalid, mmio_rready => '1', mmio_rdata => rdata, mmio_rresp => rresp,
{", ".join(ports)});
process
file stimuli : text open read_mode is "stimuli";
file answers : text open write_mode is "answers";
variable stimulus, answer : line;
variable kind, space : character;
variable number : integer;
variable address : std_logic_vector(31 downto 0);
variable data : std_logic_vector({bus - 1} downto 0);
variable strobes : std_logic_vector(7 downto 0);
variable value : std_logic_vector(255 downto 0);
variable pulses : std_logic_vector(7 downto 0);
procedure watch is begin
wait until rising_edge(clk);
{pulses}
end;
begin
for i in 1 to 4 loop wait until rising_edge(clk); end loop;
rst <= '0';
for i in 1 to 4 loop wait until rising_edge(clk); end loop;
while not endfile(stimuli) loop
readline(stimuli, stimulus); read(stimulus, kind); read(stimulus, space);
pulses := (others => '0');
if kind = 'p' then
read(stimulus, number); read(stimulus, space); hread(stimulus, value);
case number is
{drives}
when others => null;
end case;
for i in 1 to 3 loop wait until rising_edge(clk); end loop;
elsif kind = 'r' then
hread(stimulus, address);
araddr <= address; arvalid <= '1';
wait until rising_edge(clk) and arready = '1'; arvalid <= '0';
if rvalid = '0' then wait until rising_edge(clk) and rvalid = '1'; end if;
hwrite(answer, "00" & rresp); write(answer, string'(" ")); hwrite(answer, rdata);
wait until rising_edge(clk);
else
hread(stimulus, address); read(stimulus, space); hread(stimulus, data); read(stimulus, space);
hread(stimulus, strobes);
awaddr <= address; wdata <= data; wstrb <= strobes({bus // 8 - 1} downto 0);
awvalid <= '1'; wvalid <= '1';
watch; while awready = '0' or wready = '0' loop watch; end loop;
awvalid <= '0'; wvalid <= '0';
while bvalid = '0' loop watch; end loop;
hwrite(answer, "00" & bresp);
watch; watch; watch;
write(answer, string'(" ")); hwrite(answer, pulses); write(answer, string'(" "));
{shows}
end if;
writeline(answers, answer);
end loop;
ended <= true;
wait;
end process;
end;
"""


def simulate(description: Path, lines: list[str], fields: list[Field], bus: int) -> list[str]:
    """The answers of the generated hardware, a line for each access."""
    numbers = {field.name: n for n, field in enumerate(f for f in fields if f.behaviour == "status")}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "mmio.mmio.yaml").write_text(description.read_text(encoding="utf-8"), encoding="utf-8")
        (place / "bench.vhd").write_text(testbench(fields, bus), encoding="utf-8")
        (place / "stimuli").write_text("".join(f"{stimulus(line, numbers, bus)}\n" for line in lines), encoding="utf-8")
        for command in (
            [sys.executable, "-m", "vhdmmio", "mmio.mmio.yaml", "-V", ".", "-P", "."],
            ["ghdl", "-a", "--std=08", "vhdmmio_pkg.gen.vhd", "mmio_pkg.gen.vhd", "mmio.gen.vhd", "bench.vhd"],
            ["ghdl", "--elab-run", "--std=08", "bench", "--assert-level=error"],
        ):
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{' '.join(command[:3])}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return (place / "answers").read_text(encoding="utf-8").lower().splitlines()


def stimulus(line: str, numbers: dict[str, int], bus: int) -> str:
    """A line as the test bench reads it: numbers padded to the width of what they are read into."""
    kind, *rest = line.split()
    if kind == "p":
        return f"p {numbers[rest[0]]} {int(rest[1], 16):064x}"
    if kind == "r":
        return f"r {int(rest[0], 16):08x}"
    return f"w {int(rest[0], 16):08x} {int(rest[1], 16):0{bus // 4}x} {int(rest[2], 16):02x}"


def shown(line: str, answer: str) -> str:
    """A line of the recording."""
    if line.startswith("p"):
        return line
    response, *rest = answer.split()
    if line.startswith("r"):
        return f"{line} => {response} {int(rest[0], 16):x}"
    controls = ",".join(f"{int(number, 16):x}" for number in rest[1].split(",") if number)
    return f"{line} => {response} {int(rest[0], 16):x} {controls}"


def record(description: Path, accesses: int, seed: int) -> list[str]:
    """The lines of a recording."""
    fields, bus = read_fields(description.read_text(encoding="utf-8"))
    lines = random_accesses(fields, bus, accesses, seed)
    answers = simulate(description, lines, fields, bus)
    assert len(answers) == len(lines)
    return [shown(line, answer) for line, answer in zip(lines, answers, strict=True)]


def main() -> None:
    """Record one description."""
    parser = argparse.ArgumentParser(description="Record how generated Fletcher hardware answers on its bus.")
    parser.add_argument("description", type=Path, help="NAME.mmio.yaml of the generator")
    parser.add_argument("--accesses", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    lines = record(options.description, options.accesses, options.seed)
    print(f"# {options.description.name}: {len(lines)} accesses, seed {options.seed}, vhdmmio 0.0.3, ghdl")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
