"""The documentation says what is true of the code."""

import importlib.util
import pydoc
import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from federico.cli.main import app
from federico.config_file import validated
from federico.experiment.config import load
from federico.experiment.grid import make_grid
from federico.methods import METHODS
from federico.network.links import MOST_LINKS
from federico.report import summarize
from federico.report.methods_measured import with_measured_figures
from federico.site.federation_file import FederationOptions
from federico.site.site_file import SiteOptions

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
EXPERIMENTS = sorted((ROOT / "experiments").glob("*.toml"))


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(language: str) -> list[tuple[str, str]]:
    found = [
        (page.name, code)
        for page in PAGES
        for code in re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.S)
    ]
    assert found, f"there are {language} examples in the documentation"
    return found


@pytest.mark.parametrize(
    "name",
    [
        "reference-options.md",
        "reference-federation.md",
        "reference-command-line.md",
        "reference-python.md",
        "results.md",
    ],
)
def test_generated_pages_are_what_code_and_results_say(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == generator().PAGES[name](), "run `make docs`"


@pytest.mark.parametrize("name", METHODS)
def test_pages_of_methods_say_what_was_measured(name: str) -> None:
    page = ROOT / "docs" / f"explanation-method-{name}.md"
    text = page.read_text(encoding="utf-8")
    assert f"<!-- measured: {name} -->" in text
    assert text == with_measured_figures(page, ROOT / "results"), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    targets = re.findall(r"\]\(([^)#]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    missing = [
        target for target in targets if "://" not in target and not (page.parent / target).exists()
    ]
    assert not missing


def names_of_tests_in(text: str) -> set[str]:
    """The test files and test functions that a text names."""
    return set(re.findall(r"\btest_\w+(?:\.py)?", text))


def existing_tests() -> set[str]:
    """The names of all test files and test functions."""
    found: set[str] = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        found.add(file.name)
        found.update(re.findall(r"^ *def (test_\w+)", file.read_text(), re.M))
    return found


def test_every_test_that_a_page_names_exists() -> None:
    page = ROOT / "docs" / "explanation-hostile-members.md"
    assert names_of_tests_in(page.read_text()) - existing_tests() == set()


def test_every_line_of_the_threat_model_names_its_test() -> None:
    page = (ROOT / "docs" / "explanation-hostile-members.md").read_text()
    model = page.split("## The threat model")[1].split("\n\n")[1]
    header, _, *lines = model.splitlines()
    assert header.split("|")[-2].strip() == "test"
    existing = existing_tests()
    for line in lines:
        last = line.split("|")[-2]
        assert names_of_tests_in(last) & existing or (ROOT / folder_named_in(last)).is_dir(), line


def firewall_rules() -> list[list[str]]:
    """The words of every line for a firewall in the page on operating."""
    page = (ROOT / "docs" / "how-to-operate.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("nft ")]
    return [shlex.split(line) for line in lines]


def test_the_rules_for_a_firewall_fit_each_other_and_the_example_of_a_site() -> None:
    """What the engine cannot bound is bounded there, or nowhere."""
    declared = {}
    for _, verb, what, family, table, name, *rest in firewall_rules():
        assert (verb, family, table) == ("add", "inet", "filter")
        if what == "set":
            (declared[name],) = rest
            continue
        assert (what, name, rest[:3], rest[-1]) == (
            "rule",
            "input",
            ["tcp", "dport", "7447"],
            "drop",
        )
        uses = [word.removeprefix("@") for word in rest if word.startswith("@")]
        assert set(uses) <= declared.keys(), "declared before it is used"
        counted = any("ct count" in word for word in rest)
        for used in uses:
            assert "dynamic" in declared[used]
            # What is counted while it is there must be added, and must not be forgotten by time.
            assert ("timeout" in declared[used]) != counted
            assert rest[rest.index(f"@{used}") - 1] == ("add" if counted else "update")
    example = (ROOT / "docs" / "how-to-federation.md").read_text()
    assert ":7447" in example


def test_a_firewall_bounds_what_one_address_holds_and_opens() -> None:
    texts = [" ".join(words) for words in firewall_rules()]
    assert any("ip saddr != {" in text for text in texts)
    assert any(re.search(r"ip saddr ct count over \d+", text) for text in texts)
    assert any(re.search(r"ip saddr limit rate over \d+/second", text) for text in texts)
    assert sum("meta nfproto ipv6 drop" in text for text in texts) == 2, "of each way"
    limit = int(re.findall(r"ct count over (\d+)", "\n".join(texts))[0])
    assert limit >= MOST_LINKS, "a member is not kept out"


def folder_named_in(text: str) -> str:
    """The folder of tests that a text names, or a name that no folder has."""
    found = re.search(r"`(tests/\w+)`", text)
    return found[1] if found else "no folder"


def test_every_picture_has_a_twin_for_dark_pages() -> None:
    for page in PAGES:
        text = page.read_text()
        assert not re.search(r"!\[[^]]*\]\([^)]+\.png\)", text), page
        assert text.count("<img ") == text.count('media="(prefers-color-scheme: dark)"'), page
        # A picture for telephones has one, too.
        narrow = text.count('media="(max-width: 600px)"')
        assert narrow == text.count('media="(max-width: 600px) and (prefers-color-scheme: dark)"')


def test_the_glossary_gives_each_word_one_meaning() -> None:
    text = (ROOT / "docs" / "reference-glossary.md").read_text()
    entries = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", text, re.M)
    words = [word for names, _ in entries for word in names.split(", ")]
    assert len(words) > 50
    assert [word for word in sorted(set(words)) if words.count(word) > 1] == []
    # A second meaning is an entry of its own, under a name that says which it is.
    two_meanings = re.compile(r"\. (In a table|In reports|Of a \w+|Elsewhere): ")
    assert [names for names, meaning in entries if two_meanings.search(meaning)] == []


def test_every_page_of_docs_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    assert [
        page.name
        for page in (ROOT / "docs").glob("*.md")
        if page.name not in index and page.name != "README.md"
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_python_names_exist(page: Path) -> None:
    text = page.read_text()
    files = re.findall(r"`((?:src|tests|docs|benchmarks|experiments)/[\w./-]*)`", text)
    dotted_names = re.findall(r"`(federico\.[\w.]*\w)", text)

    missing = [path for path in files if not (ROOT / path).exists()]
    missing += [name for name in dotted_names if not names_something(name)]
    assert not missing


def names_something(dotted: str) -> bool:
    """Whether this is a Python object, or an option of FedeRiCo such as `federico.epsilon`."""
    option = dotted.removeprefix("federico.")
    if option in METHODS["federico"].options.model_fields:
        return True
    return pydoc.locate(dotted) is not None


# Commands in the pages.


def commands(text: str) -> list[list[str]]:
    """What follows `federico` in code: lines of blocks without a language, and spans of text."""
    block = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)
    lines: list[str] = []
    for language, code in block.findall(text):
        if not language:
            lines += code.replace("\\\n", " ").splitlines()
    prose = block.sub("", text)
    lines += [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]

    found = []
    for line in lines:
        match = re.search(r"(?:^|\s)federico (.+)", line)
        if match and not line.startswith("#"):
            found.append(shlex.split(match[1], comments=True))
    return found


def mistakes(words: list[str]) -> list[str]:
    """The commands and options among these words that `federico` does not have."""
    command: Any = typer.main.get_command(app)
    words = list(words)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        if words[0] in command.commands:
            command = command.commands[words.pop(0)]
        elif command.name == "peer":  # `federico peer site.toml` is short for `federico peer run`
            command = command.commands["run"]
        else:
            return [words[0]]

    known = {"-h", "--help", "-"}  # the last is no option: it stands for standard input or output
    for parameter in command.params:
        known.update(parameter.opts)
    options = [word.partition("=")[0] for word in words if word.startswith("-")]
    return [option for option in options if option not in known]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "results.md"], ids=lambda page: page.name
)
def test_commands_and_their_options_exist(page: Path) -> None:
    """Not in results.md: it quotes commands as they were typed on the day of a measurement."""
    wrong = {" ".join(words): mistakes(words) for words in commands(page.read_text())}
    assert {command: found for command, found in wrong.items() if found} == {}


def experiments_with_settings() -> list[tuple[str, list[str]]]:
    """The experiment file and the settings of every command in the pages that has both."""
    found = []
    for page in PAGES:
        for words in commands(page.read_text()):
            files = [word for word in words if word.startswith("experiments/")]
            settings = [
                value for word, value in pairwise(words) if word == "--set" and "$" not in value
            ]
            if files and settings and (ROOT / files[0]).is_file():
                found.append((files[0], settings))
    assert found, "there are commands with settings in the documentation"
    return found


@pytest.mark.parametrize(("file", "settings"), experiments_with_settings())
def test_settings_of_commands_are_valid(file: str, settings: list[str]) -> None:
    load(ROOT / file, settings)


def test_a_command_that_does_not_exist_is_found() -> None:
    text = "`federico walk` and\n```\nsrun federico run a.toml --pace 3 \\\n  --quiet # -x\n```\n"
    assert [mistakes(words) for words in commands(text)] == [["--pace"], ["walk"]]
    assert mistakes(["peer", "site.toml"]) == []
    assert mistakes(["peer", "check", "--hard"]) == ["--hard"]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_page_with_its_options_and_a_command(name: str) -> None:
    text = (ROOT / "docs" / f"explanation-method-{name}.md").read_text()
    assert text.startswith(f"# Explanation: {METHODS[name].title}\n")
    assert "federico run experiments/digits.toml" in text
    if name != "federico":  # whose options have a page of their own
        assert [
            option for option in METHODS[name].options.model_fields if f"`{option}`" not in text
        ] == []


def test_every_method_was_measured_with_the_others() -> None:
    summary = summarize(ROOT / "results" / "digits-methods")
    assert {entry.row.method for entry in summary.entries} == METHODS.keys()


def test_every_kept_figure_is_on_the_page_of_results() -> None:
    page = (ROOT / "docs" / "results.md").read_text()
    for table in sorted((ROOT / "results").glob("*/table.json")):
        summary = summarize(table.parent)
        for entry in summary.entries:
            figure = summary.metric.bare(entry.mean)
            assert figure in page, f"{table.parent.name}: {entry.row.name}, {entry.column}"
        assert all(source.provenance.command in page for source in summary.sources)


@pytest.mark.parametrize(("page", "code"), blocks("toml"))
def test_toml_examples_are_valid(page: str, code: str) -> None:
    raw = tomllib.loads(code)
    if "members" in raw:
        validated(FederationOptions, raw, page)
    elif "listen" in raw:
        validated(SiteOptions, raw, page)
    else:
        make_grid(raw, page)


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_python_examples_compile(page: str, code: str) -> None:
    compile(code, page, "exec")


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: file.stem)
def test_experiments_are_valid_and_named_after_their_file(file: Path) -> None:
    assert load(file).name == file.stem
