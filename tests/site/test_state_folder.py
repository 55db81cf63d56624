import json

import pytest

from federico.errors import RunError
from federico.runs.layout import CellDir
from federico.site.site_file import Site
from federico.site.state_folder import open_state_folder


def test_one_process_at_a_time(north: Site) -> None:
    with (
        open_state_folder(north),
        pytest.raises(RunError, match="another process"),
        open_state_folder(north),
    ):
        pass


def test_a_state_belongs_to_one_version_of_the_federation_file(north: Site) -> None:
    with open_state_folder(north):
        pass
    with open_state_folder(north):
        pass
    other = Site(north.options, north.federation.model_copy(update={"seed": 1}), north.folder)
    with (
        pytest.raises(RunError, match="another version of the federation file"),
        open_state_folder(other),
    ):
        pass


def test_nobody_else_looks_into_it_even_if_it_was_open_before(north: Site) -> None:
    north.state.mkdir(mode=0o755)
    with open_state_folder(north) as folder:
        assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"rounds": "three"}', "3", "\x00"])
def test_a_damaged_end_is_named(north: Site, content: str) -> None:
    with open_state_folder(north) as folder:
        (folder / "done.json").write_text(content)
        with pytest.raises(RunError, match=r"done\.json"):
            _ = CellDir(folder).rounds_done


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"name": "0"}), "\x00"])
def test_a_damaged_federation_is_named(north: Site, content: str) -> None:
    with open_state_folder(north) as folder:
        (folder / "federation.json").write_text(content)
    with pytest.raises(RunError, match="state"), open_state_folder(north):
        pass
