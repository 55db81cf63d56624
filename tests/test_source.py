"""The shape of the source: what a reader relies on, and no tool of the set-up checks."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "federico"


def test_no_class_name_is_used_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_private_torch_calls_stay_in_one_place() -> None:
    """Whatever torch does not promise has its fallback beside it in compat.py."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name == "compat.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            attribute = isinstance(node, ast.Attribute) and node.attr.startswith("_")
            private = attribute and _root(node) == "torch"
            if isinstance(node, ast.Import):
                private = any(_is_private_torch(each.name) for each in node.names)
            if isinstance(node, ast.ImportFrom):
                module = node.module or ""
                private = any(_is_private_torch(f"{module}.{each.name}") for each in node.names)
            if private:
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert found == []


def _is_private_torch(module: str) -> bool:
    package, *names = module.split(".")
    return package == "torch" and any(name.startswith("_") for name in names)


def _root(node: ast.expr) -> str:
    """The name that a chain of attributes starts with."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
