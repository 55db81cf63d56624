import subprocess
import sys
from pathlib import Path

import pytest

from federico.errors import ConfigError, IdentityError
from federico.site.site_file import Site, load_site


def rewrite(file: Path, old: str, new: str) -> Path:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return file


def test_paths_start_at_the_site_file(sites: dict[str, Path], tmp_path: Path) -> None:
    site = load_site(sites["1"])
    assert site.state == tmp_path / "1" / "state"
    assert site.identity.certificate == tmp_path / "1" / "keys" / "1.pem"
    assert site.identity.key.exists()
    assert site.member_index == 1


def test_a_name_that_is_no_members_is_refused(sites: dict[str, Path]) -> None:
    with pytest.raises(IdentityError, match="'9' is not in the members of the federation: 0, 1, 2"):
        load_site(rewrite(sites["0"], 'name = "0"', 'name = "9"'))


def test_a_peer_that_nobody_could_meet_is_refused(sites: dict[str, Path]) -> None:
    text = sites["0"].read_text()
    start, end = text.index("listen ="), text.index("wait_for_members")
    sites["0"].write_text(text[:start] + text[end:])
    with pytest.raises(ConfigError, match="nobody could ever meet"):
        load_site(sites["0"])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("127.0.0.1:", "tls/127.0.0.1:", "listen"),
        ("127.0.0.1:", '127.0.0.1:7447", "127.0.0.1:65536", "127.0.0.1:', "ports end at 65535"),
        ("keep_serving", "keep_servings", "did you mean 'keep_serving'"),
        (
            'kind = "label-groups"',
            'kind = "label-group"',
            r"partition.kind = .*did you mean 'label-groups'",
        ),
        (
            'kind = "label-groups"',
            'kind = "label-groups"\nalpha = 1.0',
            r"partition.alpha: there is no such key",
        ),
        ("../federation.toml", "../nowhere.toml", "there is no such federation file"),
    ],
)
def test_mistakes_are_named(sites: dict[str, Path], old: str, new: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        load_site(rewrite(sites["0"], old, new))


def test_there_is_an_example_of_every_kind_of_address(north: Site) -> None:
    options = north.options.model_dump()
    for address in ("0.0.0.0:7447", "north.example.org:1", "[::1]:7447"):
        assert type(north.options).model_validate({**options, "listen": [address]}).listen == (
            address,
        )


READ_AND_NAME_WHAT_WAS_LOADED = """
import sys
from pathlib import Path
from federico.site.site_file import load_site

site = load_site(Path(sys.argv[1]))
print(site.name, site.federation.digest.hex(), len(site.addresses.listen), site.identity.name)
slow = ("torch", "zenoh", "pandas", "sklearn", "matplotlib")
sys.stderr.write(" ".join(name for name in slow if name in sys.modules))
"""


def test_a_site_file_is_read_without_torch(sites: dict[str, Path], north: Site) -> None:
    command = [sys.executable, "-c", READ_AND_NAME_WHAT_WAS_LOADED, str(sites["0"])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", north.federation.digest.hex(), "1", "0"]
    assert done.stderr == ""
