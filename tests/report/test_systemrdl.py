"""SystemRDL export: an independent compiler reads back what was declared."""

import pytest

from softcard.core.errors import BeyondModel
from softcard.core.register import Access, Field, Register, RegisterMap
from softcard.report.register_formats import _KEYWORDS
from softcard.report.registers import to_systemrdl
from tests.report.maps import BYTES, MAPS

SOFTWARE = {
    Access.RW: ("rw", None),
    Access.RO: ("r", None),
    Access.WO: ("w", None),
    Access.W1C: ("rw", "woclr"),
    Access.STROBE: ("w", None),
    Access.RSVD: ("r", None),
}


def compiled(registers, tmp_path):
    """The map as the compiler elaborates it: {path: (address, field node or register node)}."""
    systemrdl = pytest.importorskip("systemrdl")
    path = tmp_path / "map.rdl"
    path.write_text(to_systemrdl(registers))
    compiler = systemrdl.RDLCompiler()
    compiler.compile_file(str(path))
    top = compiler.elaborate().top
    return {node.get_path(): node for node in top.descendants(unroll=True)}


@pytest.mark.oracle
@pytest.mark.parametrize("registers", MAPS, ids=lambda registers: registers.name)
def test_a_compiler_reads_back_what_was_declared(registers, tmp_path):
    nodes = compiled(registers, tmp_path)
    expected = set()
    for register, index, offset in registers.elements():
        path = f"{registers.name}.{register.name}" + (f"[{index}]" if register.count > 1 else "")
        expected.add(path)
        node = nodes[path]
        assert node.absolute_address == offset * registers.unit_bytes
        assert node.get_property("regwidth") == register.width
        assert node.get_property("desc", default="").split() == register.doc.split()
        for part in register.fields:
            expected.add(f"{path}.{part.name}")
            check_field(nodes[f"{path}.{part.name}"], part, register.access(part.name))
        if not register.fields:
            expected.add(f"{path}.RESERVED")
    assert set(nodes) == expected


def check_field(node, part, access):
    sw, onwrite = SOFTWARE[access]
    assert (node.low, node.width) == (part.lsb, part.width)
    assert node.get_property("sw").name == sw
    assert getattr(node.get_property("onwrite"), "name", None) == onwrite
    assert node.get_property("reset") == part.reset
    assert node.get_property("access_kind") == access.value
    assert node.get_property("desc", default="") == part.doc
    values = node.get_property("encode")
    assert {member.value: member.rdl_name for member in values or ()} == (part.values or {})


@pytest.mark.oracle
@pytest.mark.slow
def test_names_may_be_reserved_words(tmp_path):
    fields = tuple(Field(name, n) for n, name in enumerate(sorted(_KEYWORDS)))
    nodes = compiled(RegisterMap("addrmap", (Register("reg", 0, fields, 128),)), tmp_path)
    assert len(nodes) == 1 + len(fields)


@pytest.mark.parametrize(
    ("registers", "message"),
    [
        ((), "map M has no register, expected one or more in SystemRDL (clause 13.3)"),
        (
            (Register("R", 0, (), 24),),
            "register R has 24 bits, expected a power of two in SystemRDL (clause 10.6.1)",
        ),
    ],
)
def test_what_systemrdl_cannot_say_is_refused(registers, message):
    with pytest.raises(BeyondModel) as caught:
        to_systemrdl(RegisterMap("M", registers))
    assert str(caught.value) == message


def test_same_map_same_text():
    assert to_systemrdl(BYTES) == to_systemrdl(BYTES)
