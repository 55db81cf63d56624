"""Small federations, built by hand: a fixture gives a builder, and a test names what matters.

The command line without a new process, and a throw-away certificate authority.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import pytest
import torch
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import settings
from torch import nn

from federico.cli.main import main
from federico.exchange.protocol import Hosting
from federico.exchange.simulated import SimulatedExchange
from federico.experiment.build import Connect, build_method
from federico.learning.client_data import ClientData
from federico.learning.layout import ModelLayout, Shared
from federico.learning.learner import Learner
from federico.learning.models import Factory, perceptron
from federico.learning.optimizer_options import Adam
from federico.learning.optimizers import Optimizer
from federico.learning.privacy_rules import Floor
from federico.methods import METHODS
from federico.methods.method import Method
from federico.own_code import EVERYTHING, trusting

# Fixtures that several folders share, each with what it is about in its name.
pytest_plugins = ["tests.support.browser", "tests.support.bus", "tests.support.experiments"]
pytest.register_assert_rewrite("tests.support.exchange_contract")

# A busy machine is no reason to fail, and a failure must come back on the next run.
settings.register_profile("federico", deadline=None, derandomize=True)
settings.load_profile("federico")

CLASSES = 3
FEATURES = 4


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole processes first, so that no worker is left with the longest files at the end."""
    items.sort(key=lambda item: "system" not in item.path.parts)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Matrices this small only get slower when shared out."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def no_code_trusted_before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whatever code the user of this machine has said yes to, tests begin with none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture
def trusted() -> Iterator[None]:
    """Somebody has said yes to all code that files name."""
    with trusting(EVERYTHING):
        yield


def make_blobs(sizes: Sequence[int], seed: int = 0, tests: int = 5) -> list[ClientData]:
    """Classification; a client's samples lie around its own shift, so that some are alike."""
    rng = np.random.default_rng(seed)
    centers = 2 * rng.standard_normal((CLASSES, FEATURES))

    def part(client: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(CLASSES, size=count)
        return centers[(y + client % 2) % CLASSES] + rng.standard_normal((count, FEATURES)), y

    return [ClientData(f"c{i}", part(i, size), part(i, tests)) for i, size in enumerate(sizes)]


def make_sine(sizes: Sequence[int], seed: int = 0) -> list[ClientData]:
    """Regression, figure 1 of the paper: successive intervals of a noisy sine, one per client."""
    rng = np.random.default_rng(seed)
    width = 2 * np.pi / len(sizes)

    def part(client: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        x = width * (client + rng.random((count, 1)))
        return x, np.sin(x) + 0.1 * rng.standard_normal((count, 1))

    return [ClientData(f"c{i}", part(i, size), part(i, 5)) for i, size in enumerate(sizes)]


def make_learner(
    clients: Sequence[ClientData],
    *,
    hidden: tuple[int, ...] = (),
    model: Factory | None = None,
    optimizer: Optimizer | None = None,
    batch_size: int = 4,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    shared: Shared = "all",
) -> Learner:
    """A learner in double precision with `model`, or a perceptron (linear if nothing is hidden)."""
    x, y = clients[0].train
    task, outputs = (
        ("regression", y.shape[1]) if y.dtype.kind == "f" else ("classification", CLASSES)
    )
    factory = model or (lambda: perceptron((int(np.prod(x.shape[1:])), *hidden, outputs)))
    chosen = optimizer or Adam()
    return Learner(
        ModelLayout(factory, dtype, shared=shared),
        clients,
        task,
        outputs,
        chosen,
        batch_size=batch_size,
        seed=seed,
    )


def make_method(
    kind: str | type[Method],
    clients: Sequence[ClientData],
    *,
    hidden: tuple[int, ...] = (),
    model: Factory | None = None,
    optimizer: Optimizer | None = None,
    batch_size: int = 4,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    local_epochs: int = 1,
    rounds: int = 10,
    hosting: Hosting | None = None,
    connect: Connect | None = None,
    floor: Floor | None = None,
    shared: Shared = "all",
    **options: object,
) -> Method:
    """A method before its first round, of all clients in one process; `options` are its own."""
    learner = make_learner(
        clients,
        hidden=hidden,
        model=model,
        optimizer=optimizer,
        batch_size=batch_size,
        seed=seed,
        dtype=dtype,
        shared=shared,
    )
    cls = METHODS[kind] if isinstance(kind, str) else kind
    names = tuple(client.name for client in clients)
    chosen = cls.options(**options)
    return build_method(
        cls,
        chosen,
        names=names,
        learner=learner,
        hosting=hosting or Hosting(len(names)),
        connect=connect or SimulatedExchange,
        local_epochs=local_epochs,
        rounds=rounds,
        floor=floor,
    )


class BatchNormNet(nn.Module):
    """A small model with statistics and a counter.

    `momentum=None` makes the statistics depend on the counter.
    """

    def __init__(self, momentum: float | None = 0.1) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(FEATURES, momentum=momentum)
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(x))


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Finds real data: the folder that holds the file or folder of this name, or skips the test.

    That is FEDERICO_DATA or, in development, `../shared/data`. The code under test looks there too.
    """
    development = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("FEDERICO_DATA", development))

    def find(name: str) -> Path:
        if not (folder / name).exists():
            pytest.skip(f"{name} is not in {folder}: set FEDERICO_DATA to the folder that holds it")
        monkeypatch.setenv("FEDERICO_DATA", str(folder))
        return folder

    return find


@pytest.fixture(scope="session")
def blobs() -> Callable[..., list[ClientData]]:
    return make_blobs


@pytest.fixture(scope="session")
def sine() -> Callable[..., list[ClientData]]:
    return make_sine


@pytest.fixture(scope="session")
def learner() -> Callable[..., Learner]:
    return make_learner


@pytest.fixture(scope="session")
def method() -> Callable[..., Method]:
    return make_method


@pytest.fixture(scope="session")
def batch_norm_net() -> type[BatchNormNet]:
    return BatchNormNet


class Authority:
    """A throw-away certificate authority; `issue` gives (certificate, key) as PEM."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.pem = self._sign(self._name, self._key.public_key(), 30, leaf=False)

    def issue(self, name: str, days: float = 7) -> tuple[bytes, bytes]:
        """For a peer on this machine; with `days` below 0 it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return self._sign(subject, key.public_key(), days, leaf=True), pem

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: float, *, leaf: bool
    ) -> bytes:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(self._name, subject, key, x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=20)).not_valid_after(
            now + timedelta(days=days)
        )
        builder = builder.add_extension(
            x509.BasicConstraints(ca=not leaf, path_length=None), critical=True
        )
        if leaf:
            here = [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")]
            both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            builder = builder.add_extension(x509.SubjectAlternativeName(here), critical=False)
            builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.fixture(scope="session")
def new_authority() -> type[Authority]:
    return Authority


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@dataclass(frozen=True)
class Answer:
    """What a command left behind."""

    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def federico(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """The command line, run inside `tmp_path` without starting a process."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> Answer:
        monkeypatch.setattr(sys, "argv", ["federico", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call
