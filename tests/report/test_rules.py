"""Rules and their tests: finding, tables, sections, and the docs themselves."""

import importlib.util
from pathlib import Path

import pytest

from softcard.core.rule import Choice, Fidelity, Rule
from softcard.report.markdown import SectionError, fill_sections, section_names
from softcard.report.rules import choice_table, find_tests, missing_tests, named_after, rule_table

ROOT = Path(__file__).parents[2]
FEED = Rule("acceldev/feed-error", "Device Commands", "queue | full\nraises FEED_ERROR")
FENCE = Rule("acceldev/fence", "FENCE Command", "waits", Fidelity.CHOSEN)
OTHER = Rule("refsi/fence", "Other", "", Fidelity.ABSENT)


@pytest.fixture
def tree(tmp_path):
    """A test tree with tests of two interfaces."""
    (tmp_path / "device" / "acceldev").mkdir(parents=True)
    (tmp_path / "device" / "acceldev" / "test_queue.py").write_text(
        "def test_a_full_queue_is_a_feed_error(): pass\n"
        "class TestMore:\n    def test_feed_error(self): pass\n"
        "def helper_fence(): pass\n"
        "def test_feed_error_is_reset(): pass\n"
    )
    (tmp_path / "test_other.py").write_text("def test_refsi_fence(): pass\nasync def test_fence(): pass\n")
    return tmp_path


def test_tests_are_found_by_the_name_of_the_rule(tree):
    tests = find_tests(tree)
    assert len(tests) == 5
    assert [test.name for test in named_after(FEED, tests)] == ["test_a_full_queue_is_a_feed_error", "test_feed_error"]
    assert named_after(FENCE, tests) == ()
    assert [(test.path, test.name) for test in named_after(OTHER, tests)] == [("test_other.py", "test_refsi_fence")]


def test_rules_without_a_test_are_missing(tree):
    assert missing_tests([FEED, FENCE, OTHER], tree) == (FENCE,)


def test_interfaces_may_have_names_of_several_words(tmp_path):
    (tmp_path / "test_amd_opencl2.py").write_text("def test_args(): pass\n")
    assert missing_tests([Rule("amd-opencl2/args", "", "")], tmp_path) == ()


def test_the_table_of_rules(tree):
    assert rule_table([FEED, FENCE], tree).splitlines() == [
        "| clause | rule | fidelity | test |",
        "| --- | --- | --- | --- |",
        "| Device Commands | `acceldev/feed-error`: queue \\| full raises FEED_ERROR | exact | "
        "`device/acceldev/test_queue.py::test_a_full_queue_is_a_feed_error`<br>"
        "`device/acceldev/test_queue.py::test_feed_error` |",
        "| FENCE Command | `acceldev/fence`: waits | chosen | none yet |",
    ]


def test_the_table_of_choices():
    assert choice_table([Choice("a/b", "gap", "an|swer", "why")]).splitlines() == [
        "| choice | left open | answer | reason |",
        "| --- | --- | --- | --- |",
        "| `a/b` | gap | an\\|swer | why |",
    ]


PAGE = "# Title\n\n<!-- begin rules x -->\nold\n<!-- end rules x -->\n\nrest\n"


def test_sections_are_replaced_and_nothing_else():
    filled = fill_sections(PAGE, {"rules x": "new\n"})
    assert filled == "# Title\n\n<!-- begin rules x -->\n\nnew\n\n<!-- end rules x -->\n\nrest\n"
    assert fill_sections(filled, {"rules x": "new"}) == filled
    assert section_names(PAGE) == ("rules x",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- end a -->", "section a must begin before it ends, at line 1"),
        ("\n<!-- begin a -->\n<!-- begin a -->", "section a must end before a begins, at line 3"),
        ("<!-- begin a -->\n<!-- end b -->", "section b must begin before it ends, at line 2"),
        ("<!-- begin b -->", "section b is unknown: there is no generated text for it, at line 1"),
        ("<!-- begin a -->", "section a has no end marker"),
    ],
)
def test_sections_that_do_not_pair_up_are_refused(text, message):
    with pytest.raises(SectionError) as caught:
        fill_sections(text, {"a": ""})
    assert str(caught.value) == message


@pytest.fixture(scope="module")
def gen_docs():
    """tools/gen_docs.py as a module."""
    spec = importlib.util.spec_from_file_location("gen_docs", ROOT / "tools" / "gen_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_docs_are_up_to_date(gen_docs, capsys):
    assert gen_docs.main(["--check"]) == 0, capsys.readouterr().err


MUST_BE = (
    "must be one of: rules NAME, choices NAME, choices host NAME, registers NAME MAP, slots NAME, fidelity NAME, "
    "matrices NAME, hazards NAME, opcodes NAME FAMILY, api NAME, benchmarks NAME, design"
)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("rules nothing", "page.md: section rules nothing: No module named 'softcard.device.nothing'\n"),
        ("poems", f"page.md: section poems {MUST_BE}\n"),
        ("rules", f"page.md: section rules {MUST_BE}\n"),
    ],
)
def test_pages_with_unknown_sections_are_refused(gen_docs, section, message, tmp_path, capsys):
    (tmp_path / "page.md").write_text(f"<!-- begin {section} -->\n<!-- end {section} -->\n")
    assert gen_docs.main(["--docs", str(tmp_path), "--tests", str(tmp_path)]) == 2
    assert capsys.readouterr().err == message


def test_a_page_is_checked_then_written(gen_docs, tree, monkeypatch, capsys):
    monkeypatch.setattr(gen_docs, "generate", lambda name, tests: f"content of {name}")
    page = tree / "page.md"
    page.write_text(PAGE)
    arguments = ["--docs", str(tree), "--tests", str(tree)]
    assert gen_docs.main([*arguments, "--check"]) == 1
    assert page.read_text() == PAGE
    assert capsys.readouterr().err == "page.md is out of date: run make docs\n"
    assert gen_docs.main(arguments) == 0
    assert "\n\ncontent of rules x\n\n" in page.read_text()
    assert gen_docs.main([*arguments, "--check"]) == 0
