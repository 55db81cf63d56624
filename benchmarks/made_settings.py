"""Data sets that no study knows: made, or small public ones divided in ways that occur.

Each function makes the clients of one federation. Its docstring says what they imitate and is what
the page of results shows. `benchmarks/made_data.py` measures what FedeRiCo is worth to them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import getdoc
from typing import Any, TypeAlias

import numpy as np
from sklearn import datasets

from federico.types import Array, FloatArray, Task

Samples: TypeAlias = tuple[FloatArray, Array]
"""Inputs, and class numbers or values."""


@dataclass(frozen=True)
class MadeClient:
    """One client's samples."""

    train: Samples
    test: Samples


MadeClients: TypeAlias = dict[str, MadeClient]


@dataclass(frozen=True)
class Setting:
    """One kind of data, and the model that it is learned with."""

    name: str
    model: str
    task: Task
    make: Callable[[np.random.Generator], MadeClients]
    is_new: bool
    """Whether no rule was ever tried on data of this kind before its first measurement."""

    @property
    def about(self) -> str:
        """What the data imitates, in a sentence."""
        return " ".join((getdoc(self.make) or "").split()).removesuffix(".")


SETTINGS: dict[str, Setting] = {}
"""All settings by name, in the order of this file."""

Maker: TypeAlias = Callable[[np.random.Generator], MadeClients]


def setting(
    model: str, task: Task = "classification", *, is_new: bool = False
) -> Callable[[Maker], Maker]:
    """List the function below under its own name."""

    def listed(make: Maker) -> Maker:
        name = make.__name__
        SETTINGS[name] = Setting(name, model, task, make, is_new)
        return make

    return listed


# What settings are made of.


def divided(x: FloatArray, y: Array, train: int) -> MadeClient:
    """The first samples are trained on, all others test."""
    return MadeClient((x[:train], y[:train]), (x[train:], y[train:]))


def named(clients: Sequence[MadeClient]) -> MadeClients:
    """The clients as 'c0', 'c1', and so on."""
    return {f"c{place}": client for place, client in enumerate(clients)}


def seed_from(random: np.random.Generator) -> int:
    """A seed for what scikit-learn draws."""
    return int(random.integers(1 << 30))


def standardised(x: FloatArray) -> FloatArray:
    """Each column with mean 0 and standard deviation 1."""
    scale: FloatArray = (x - x.mean(axis=0)) / x.std(axis=0)
    return scale


def turned(x: FloatArray, degrees: float) -> FloatArray:
    """Points of a plane, turned about its origin."""
    angle = np.deg2rad(degrees)
    matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    points: FloatArray = x @ matrix
    return points


def classes_from_one_source(
    random: np.random.Generator, clients: int, each: int, **shape: Any
) -> list[Samples]:
    """Samples of one source, equally many for each client."""
    x, y = datasets.make_classification(
        clients * each, random_state=seed_from(random), **{"n_features": 10, **shape}
    )
    return list(zip(np.split(x, clients), np.split(y, clients), strict=True))


def linear_classes(
    random: np.random.Generator, weights: FloatArray, samples: int, noise: float = 0.0
) -> Samples:
    """Two classes on either side of a plane."""
    x = random.normal(size=(samples, len(weights)))
    score = x @ weights + noise * random.normal(size=samples)
    return x, (score > 0).astype(int)


def linear_values(
    random: np.random.Generator, weights: FloatArray, samples: int, noise: float = 1.0
) -> Samples:
    """Values that rise along a direction, with noise."""
    x = random.normal(size=(samples, len(weights)))
    return x, x @ weights + noise * random.normal(size=samples)


# A small public data set, shared out.


@setting("linear")
def wine_alike(random: np.random.Generator) -> MadeClients:
    """Wines told by their chemistry, 4 to 30 samples, shared out by chance."""
    x, y = datasets.load_wine(return_X_y=True)
    order = random.permutation(len(x))
    parts = np.split(order, np.cumsum([60, 45, 30, 20, 14]))
    x = standardised(x)
    return named([divided(x[part], y[part], len(part) // 2) for part in parts])


@setting("linear")
def wine_uneven(random: np.random.Generator) -> MadeClients:
    """Wines as above, with classes shared out unevenly (Dirichlet, 0.5)."""
    x, y = datasets.load_wine(return_X_y=True)
    x = standardised(x)
    parts: list[list[int]] = [[] for _ in range(5)]
    for label in range(3):
        samples = random.permutation(np.flatnonzero(y == label))
        shares = random.dirichlet([0.5] * len(parts))
        ends = (np.cumsum(shares)[:-1] * len(samples)).astype(int)
        for part, found in zip(parts, np.split(samples, ends), strict=True):
            part.extend(found.tolist())
    clients = []
    for part in parts:
        if len(part) >= 6:
            shuffled = random.permutation(part)
            clients.append(divided(x[shuffled], y[shuffled], len(part) // 2))
    return named(clients)


@setting("linear", is_new=True)
def cancer_by_size(random: np.random.Generator) -> MadeClients:
    """Tumours told by their cells, hospitals by the size of the tumours that they see."""
    x, y = datasets.load_breast_cancer(return_X_y=True)
    # The sizes that hospitals see overlap.
    size = x[:, 0] + x[:, 0].std() * 0.5 * random.normal(size=len(x))
    x = standardised(x)
    clients = []
    for part in np.array_split(np.argsort(size), 6):
        shuffled = random.permutation(part)
        clients.append(divided(x[shuffled], y[shuffled], 40))
    return named(clients)


@setting("linear", "regression")
def diabetes_by_age(random: np.random.Generator) -> MadeClients:
    """The course of diabetes a year on, practices by the age of their patients."""
    x, y = datasets.load_diabetes(return_X_y=True)
    x = standardised(x)
    age = x[:, 0] + 0.3 * random.normal(size=len(x))
    clients = []
    for part in np.array_split(np.argsort(age), 5):
        shuffled = random.permutation(part)
        clients.append(divided(x[shuffled], y[shuffled], 45))
    return named(clients)


# Every client has a rule of its own, more or less like the others'.


def moons(random: np.random.Generator, train: int) -> MadeClients:
    """Two bent classes, turned by 15 degrees more from client to client."""
    clients = []
    for place in range(8):
        x, y = datasets.make_moons(train + 500, noise=0.25, random_state=seed_from(random))
        clients.append(divided(turned(x, 15 * place), y, train))
    return named(clients)


@setting("mlp")
def moons_40(random: np.random.Generator) -> MadeClients:
    """Two bent classes, turned by 15 degrees more from client to client, 40 samples."""
    return moons(random, 40)


@setting("mlp")
def moons_100(random: np.random.Generator) -> MadeClients:
    """Two bent classes, turned by 15 degrees more from client to client, 100 samples."""
    return moons(random, 100)


@setting("mlp")
def rings(random: np.random.Generator) -> MadeClients:
    """Three classes in rings about a centre of each client's own, 100 samples."""
    clients = []
    for _ in range(8):
        x, y = datasets.make_gaussian_quantiles(
            n_samples=500, n_features=4, n_classes=3, random_state=seed_from(random)
        )
        clients.append(divided(x + 0.8 * random.normal(size=4), y, 100))
    return named(clients)


def own_rules(random: np.random.Generator, train: int) -> MadeClients:
    """A linear rule of each client, near that of others."""
    common = random.normal(size=8)
    common /= np.linalg.norm(common)
    clients = []
    for _ in range(8):
        own = common + 0.5 * random.normal(size=8) / np.sqrt(8)
        x, y = linear_classes(random, own, train + 400)
        clients.append(divided(x, y, train))
    return named(clients)


@setting("linear")
def own_rule_25(random: np.random.Generator) -> MadeClients:
    """A sharp linear rule of one's own, near that of others, 25 samples."""
    return own_rules(random, 25)


@setting("linear")
def own_rule_60(random: np.random.Generator) -> MadeClients:
    """A sharp linear rule of one's own, near that of others, 60 samples."""
    return own_rules(random, 60)


@setting("linear")
def own_rule_200(random: np.random.Generator) -> MadeClients:
    """A sharp linear rule of one's own, 200 samples: nobody needs the others."""
    return own_rules(random, 200)


@setting("mlp", is_new=True)
def paired_rules(random: np.random.Generator) -> MadeClients:
    """Four pairs of sensors: the rule drifts from pair to pair, 60 samples."""
    start, end = random.normal(size=(2, 6))
    clients = []
    for pair in range(4):
        weights = (1 - pair / 3) * start + pair / 3 * end
        for _ in range(2):
            x, y = linear_classes(random, weights, 460, noise=0.5)
            clients.append(divided(x, y, 60))
    return named(clients)


@setting("linear")
def opposite_one(random: np.random.Generator) -> MadeClients:
    """Two classes, which one client of six names the other way round, 80 samples."""
    parts = classes_from_one_source(random, 6, 480, n_informative=5)
    clients = []
    for place, (x, y) in enumerate(parts):
        clients.append(divided(x, 1 - y if place == 0 else y, 80))
    return named(clients)


@setting("linear")
def opposite_two(random: np.random.Generator) -> MadeClients:
    """Two clients, each of which names the two classes as the other does not, 80 samples."""
    (x, y), (other_x, other_y) = classes_from_one_source(random, 2, 480, n_informative=5)
    return named([divided(x, y, 80), divided(other_x, 1 - other_y, 80)])


# Clients of very different sizes.


def unequal_sizes(random: np.random.Generator) -> MadeClients:
    """A linear rule of each client, for very different numbers of samples."""
    common = random.normal(size=10)
    clients = []
    for samples in (5, 10, 20, 50, 100, 300, 800, 2000):
        own = common + 0.7 * random.normal(size=10)
        x, y = linear_classes(random, own, samples + 500, noise=0.5)
        clients.append(divided(x, y, samples))
    return named(clients)


@setting("linear")
def unequal_linear(random: np.random.Generator) -> MadeClients:
    """Clients of 5 to 2000 samples, each with a rule of its own."""
    return unequal_sizes(random)


@setting("mlp")
def unequal_mlp(random: np.random.Generator) -> MadeClients:
    """Clients of 5 to 2000 samples, each with a rule of its own, learned with a network."""
    return unequal_sizes(random)


@setting("linear")
def big_beside_small(random: np.random.Generator) -> MadeClients:
    """One client of 1500 beside seven of 25, each with a rule of its own."""
    common = random.normal(size=10)
    clients = []
    for place in range(8):
        train = 1500 if place == 0 else 25
        own = common + 0.8 * random.normal(size=10)
        x, y = linear_classes(random, own, train + 500)
        clients.append(divided(x, y, train))
    return named(clients)


# One rule, but samples of different quality or kind.


@setting("mlp")
def noisy_labels(random: np.random.Generator) -> MadeClients:
    """One source with wrong labels, from none of them to nearly half, 80 samples."""
    parts = classes_from_one_source(random, 8, 400, n_informative=6, n_classes=3)
    clients = []
    for place, (x, y) in enumerate(parts):
        wrong = random.random(len(y)) < 0.065 * place
        labels = np.where(wrong, random.integers(0, 3, len(y)), y)
        clients.append(divided(x, labels, 80))
    return named(clients)


@setting("mlp")
def rare_class(random: np.random.Generator) -> MadeClients:
    """One source, of whose samples 3 % are of the second class, 150 samples."""
    parts = classes_from_one_source(random, 8, 650, n_informative=5, weights=[0.97], flip_y=0)
    return named([divided(x, y, 150) for x, y in parts])


@setting("mlp")
def shards(random: np.random.Generator) -> MadeClients:
    """Ten classes, of which every client has two, 50 samples."""
    x, y = datasets.make_classification(
        4000,
        20,
        n_informative=12,
        n_classes=10,
        n_clusters_per_class=1,
        random_state=seed_from(random),
    )
    clients = []
    for _ in range(8):
        own_classes = random.choice(10, 2, replace=False)
        samples = random.permutation(np.flatnonzero(np.isin(y, own_classes)))[:250]
        clients.append(divided(x[samples], y[samples], 50))
    return named(clients)


@setting("mlp", is_new=True)
def missing_classes(random: np.random.Generator) -> MadeClients:
    """Six classes, of which every client lacks two when it trains and meets all, 90 samples."""
    parts = classes_from_one_source(
        random, 6, 700, n_features=12, n_informative=8, n_classes=6, n_clusters_per_class=1
    )
    clients = []
    for x, y in parts:
        lacking = random.choice(6, 2, replace=False)
        known = np.flatnonzero(~np.isin(y, lacking))[:90]
        rest = np.setdiff1d(np.arange(len(y)), known)
        clients.append(MadeClient((x[known], y[known]), (x[rest], y[rest])))
    return named(clients)


@setting("mlp")
def other_units(random: np.random.Generator) -> MadeClients:
    """One client of six measures all inputs in a unit 30 times smaller, 80 samples."""
    parts = classes_from_one_source(random, 6, 400, n_informative=6, n_classes=3)
    clients = []
    for place, (x, y) in enumerate(parts):
        clients.append(divided(x * 30 if place == 0 else x, y, 80))
    return named(clients)


@setting("mlp", is_new=True)
def other_columns(random: np.random.Generator) -> MadeClients:
    """One hospital of six exports its columns in another order, 80 samples."""
    parts = classes_from_one_source(random, 6, 480, n_informative=6, n_classes=3)
    clients = []
    for place, (x, y) in enumerate(parts):
        order = random.permutation(10) if place == 0 else np.arange(10)
        clients.append(divided(x[:, order], y, 80))
    return named(clients)


@setting("mlp", is_new=True)
def elsewhere(random: np.random.Generator) -> MadeClients:
    """One bent rule for all, but each sensor sees another part of the inputs, 60 samples."""
    weights = random.normal(size=4)
    clients = []
    for _ in range(8):
        x = random.normal(size=(460, 4)) + 1.5 * random.normal(size=4)
        score = np.sin(x[:, 0]) * 2 + x @ weights / 2 + 0.3 * random.normal(size=len(x))
        clients.append(divided(x, (score > 0).astype(int), 60))
    return named(clients)


@setting("mlp", is_new=True)
def repeated_rows(random: np.random.Generator) -> MadeClients:
    """Every sample stands four times in a client's table: 20 different ones of two rules."""
    rules = random.normal(size=(2, 6))
    clients = []
    for place in range(8):
        x, y = linear_classes(random, rules[place % 2], 420, noise=0.5)
        rows = np.repeat(np.arange(20), 4)
        clients.append(MadeClient((x[rows], y[rows]), (x[20:], y[20:])))
    return named(clients)


# Values to predict.


def slopes(random: np.random.Generator, spread: float, train: int) -> MadeClients:
    """Linear values, with slopes this far from those that all share."""
    common = random.normal(size=6)
    clients = []
    for _ in range(8):
        own = common + spread * random.normal(size=6)
        x, y = linear_values(random, own, train + 400)
        clients.append(divided(x, y, train))
    return named(clients)


@setting("linear", "regression")
def slopes_near(random: np.random.Generator) -> MadeClients:
    """Values with slopes of one's own, near those of others, 40 samples."""
    return slopes(random, 0.3, 40)


@setting("linear", "regression")
def slopes_apart(random: np.random.Generator) -> MadeClients:
    """Values with slopes of one's own, as far apart as they are long, 40 samples."""
    return slopes(random, 1.0, 40)


@setting("linear", "regression")
def slopes_far(random: np.random.Generator) -> MadeClients:
    """Values with slopes of one's own, unlike those of others, 40 samples."""
    return slopes(random, 3.0, 40)


@setting("linear", "regression")
def slopes_apart_100(random: np.random.Generator) -> MadeClients:
    """Values with slopes of one's own, far apart, 100 samples: nobody needs the others."""
    return slopes(random, 1.0, 100)


@setting("linear", "regression")
def slopes_near_24(random: np.random.Generator) -> MadeClients:
    """Values with slopes of one's own, near those of others, 24 samples."""
    return slopes(random, 0.3, 24)


@setting("linear", "regression")
def slopes_apart_24(random: np.random.Generator) -> MadeClients:
    """Values with slopes of one's own, as far apart as they are long, 24 samples."""
    return slopes(random, 1.0, 24)


@setting("linear", "regression")
def slopes_far_24(random: np.random.Generator) -> MadeClients:
    """Values with slopes of one's own, unlike those of others, 24 samples."""
    return slopes(random, 3.0, 24)


@setting("linear", "regression")
def slopes_far_12(random: np.random.Generator) -> MadeClients:
    """Values with slopes of one's own, unlike those of others, 12 samples."""
    return slopes(random, 3.0, 12)


@setting("linear", "regression")
def target_units(random: np.random.Generator) -> MadeClients:
    """Slopes of one's own, each client's values in other units, 100 samples."""
    common = random.normal(size=6)
    clients = []
    for place in range(6):
        own = common + 0.5 * random.normal(size=6)
        x, y = linear_values(random, own, 500)
        unit = 10.0 ** (place - 2)
        clients.append(divided(x, unit * y + 10.0**place, 100))
    return named(clients)


@setting("linear", "regression")
def noisy_values(random: np.random.Generator) -> MadeClients:
    """One rule, measured with a noise of 0.1 to 10, 60 samples."""
    weights = random.normal(size=6)
    clients = []
    for place in range(8):
        noise = 10 ** (place / 3.5 - 1)
        x, y = linear_values(random, weights, 460, noise)
        clients.append(divided(x, y, 60))
    return named(clients)


@setting("linear", "regression")
def heavy_tails(random: np.random.Generator) -> MadeClients:
    """Slopes of one's own, with noise that is now and then enormous, 80 samples."""
    common = random.normal(size=6)
    clients = []
    for _ in range(8):
        own = common + 0.7 * random.normal(size=6)
        x, y = linear_values(random, own, 480, noise=0.0)
        clients.append(divided(x, y + random.standard_t(1.5, size=len(y)), 80))
    return named(clients)


@setting("mlp", "regression")
def bent_values(random: np.random.Generator) -> MadeClients:
    """Bent values (Friedman's), inputs in the reverse order at half of the clients, 100 samples."""
    clients = []
    for place in range(6):
        x, y = datasets.make_friedman1(500, 8, noise=1.0, random_state=seed_from(random))
        clients.append(divided(x[:, ::-1] if place >= 3 else x, y, 100))
    return named(clients)


@setting("mlp", "regression")
def shop_sales(random: np.random.Generator) -> MadeClients:
    """Numbers of sales, skewed; level and effects are each shop's own, 120 days."""
    effects = random.normal(size=5) / 2
    clients = []
    for _ in range(8):
        own = effects + 0.25 * random.normal(size=5)
        level = random.normal(2.0, 0.7)
        x = random.normal(size=(520, 5))
        expected = np.exp(level + x @ own / 2)
        # Shops have good and bad days that no column tells of.
        sales = random.poisson(expected * random.gamma(4.0, 0.25, size=len(x)))
        clients.append(divided(x, sales.astype(float), 120))
    return named(clients)


@setting("mlp", "regression")
def two_outputs(random: np.random.Generator) -> MadeClients:
    """Two values for each sample, of which clients share the first one's rule only, 60 samples."""
    shared = random.normal(size=6)
    clients = []
    for _ in range(6):
        own = random.normal(size=6)
        x = random.normal(size=(460, 6))
        outputs = np.stack([np.tanh(x @ shared), np.tanh(x @ own)], axis=1)
        noisy = outputs + 0.2 * random.normal(size=outputs.shape)
        clients.append(divided(x, noisy, 60))
    return named(clients)
