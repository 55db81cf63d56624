"""Differential privacy of clients' samples: how models that others see are trained, and its cost.

Every step of DP-SGD draws each sample with the same probability, shortens the gradient of each to
at most `clip`, and adds Gaussian noise of `noise` times that length. What all steps of all visits
of a run cost together is added up by Renyi differential privacy, with the functions of Opacus.
"""

import warnings
from collections.abc import Callable
from functools import cache
from math import ceil
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from federico.errors import ConfigError
from federico.learning.layout import ModelLayout
from federico.learning.privacy_rules import PrivacyRules
from federico.rng import key, stream
from federico.types import FloatArray, IntArray

ORDERS = (1.25, 1.5, 1.75, 2.0, 2.5, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 128, 256)
"""Orders of Renyi divergence to take the best bound of; any choice of them gives a valid bound."""
NOISE_PRECISION = 1.01
"""Noise that is searched for is at most this much larger than needed."""
LEAST_NOISE = 0.05
MOST_NOISE = 1e4
HOLDING_OUT, ON_ALL = 0, 1
"""The two columns of an account: steps while samples were held out of training, and after."""


class PrivacyAccount:
    """What each client has spent, and what it may still afford."""

    def __init__(
        self,
        rules: PrivacyRules,
        batch_size: int,
        epochs: int,
        keep: Callable[[IntArray], None] | None = None,
    ) -> None:
        """`keep` is given all steps of all clients before any of them is taken."""
        self.rules = rules
        self._batch_size = batch_size
        self._epochs = epochs
        self._keep = keep
        self.all_samples: IntArray = np.zeros(0, dtype=np.int64)
        self.steps: IntArray = np.zeros((0, 2), dtype=np.int64)
        """How many steps each client has taken, [clients, 2]."""
        self.noise: FloatArray = np.zeros(0)
        """The noise of each client, in units of `clip`, [clients]."""
        self._train_samples: IntArray = np.zeros(0, dtype=np.int64)

    def open(self, samples: IntArray) -> None:
        """Begin the account of clients with this many training samples each; nothing is spent."""
        self.all_samples = samples
        self._train_samples = samples
        self.steps = np.zeros((len(samples), 2), dtype=np.int64)
        self._choose_noise()

    def hold_out(self, trained_on: IntArray) -> None:
        """From now on, and in the account so far, clients trained on this many samples at first."""
        self._train_samples = trained_on
        self._choose_noise()

    def restore(self, clients: IntArray, steps: IntArray) -> None:
        """Continue the account of these clients; what is known to be spent already stays spent."""
        self.steps[clients] = np.maximum(self.steps[clients], steps)

    def spent(self) -> FloatArray:
        """Epsilon of each client so far, [clients]; 0 for who has sent nothing."""
        return np.array([self._epsilon(i, self.steps[i]) for i in range(len(self.steps))])

    def affordable(self, client: int, visits: int, samples: int) -> bool:
        """Whether the client can make this many visits on this many samples within its budget."""
        after = self._after(client, visits, samples)
        return self._epsilon(client, after) <= self.rules.epsilon

    def charge(self, clients: IntArray, samples: IntArray) -> None:
        """Add a visit of each of these clients, which train on this many samples each."""
        for client, count in zip(clients.tolist(), samples.tolist(), strict=True):
            self.steps[client] = self._after(client, 1, count)
        self._keep_steps()

    def charge_at_most(self, client: int, visits: int) -> None:
        """Add visits of which nobody knows on how many samples: each at the dearest it can be."""
        # Every step as if on few samples, each of which is drawn more often, and as many as on all.
        steps = self._epochs * self.steps_per_epoch(int(self.all_samples[client]))
        self.steps[client, HOLDING_OUT] += visits * steps
        self._keep_steps()

    def use_up(self, client: int) -> None:
        """Count the whole budget as spent: no visit is affordable any more."""
        # First with what is trained on while some samples are held out, then with all.
        for counts in (self._train_samples, self.all_samples):
            samples = int(counts[client])
            visits = self._most_affordable(client, samples)
            self.steps[client] = self._after(client, visits, samples)
        self._keep_steps()

    def steps_per_epoch(self, samples: int) -> int:
        """How many steps a client with this many samples takes in an epoch."""
        return ceil(samples / self._batch_size)

    def rate(self, samples: int) -> float:
        """The probability with which a step draws each of this many samples."""
        return min(1.0, self._batch_size / max(1, samples))

    def _most_affordable(self, client: int, samples: int) -> int:
        """How many visits on this many samples are left in the budget; 0 if there is no sample."""
        if samples == 0:
            return 0
        too_many = 1
        while self.affordable(client, too_many, samples):
            too_many *= 2
        enough = too_many // 2
        while too_many - enough > 1:
            middle = (enough + too_many) // 2
            if self.affordable(client, middle, samples):
                enough = middle
            else:
                too_many = middle
        return enough

    def _keep_steps(self) -> None:
        if self._keep is not None:
            self._keep(self.steps)

    def _after(self, client: int, visits: int, samples: int) -> IntArray:
        """The steps of a client once it has paid so many more visits with so many samples."""
        column = HOLDING_OUT
        if samples == self.all_samples[client]:
            column = ON_ALL
        steps_per_visit = self._epochs * self.steps_per_epoch(samples)
        after: IntArray = self.steps[client].copy()
        after[column] += visits * steps_per_visit
        return after

    def _epsilon(self, client: int, steps: IntArray) -> float:
        """What so many steps cost this client."""
        samples = {HOLDING_OUT: self._train_samples, ON_ALL: self.all_samples}
        taken: list[tuple[float, int]] = []
        for column, counts in samples.items():
            if steps[column] > 0:
                rate = self.rate(int(counts[client]))
                taken.append((rate, int(steps[column])))
        noise = float(self.noise[client])
        return epsilon_of(tuple(taken), noise, self.rules.delta)

    def _choose_noise(self) -> None:
        """The noise with which the planned visits of each client fit into its budget."""
        self.noise = np.zeros(len(self.all_samples))
        for client, samples in enumerate(self.all_samples.tolist()):
            if self.rules.noise is not None:
                self.noise[client] = self.rules.noise
            elif samples > 0:  # others are hosted elsewhere
                # As if a step on all samples drew each of them as often as one on fewer does.
                rate = self.rate(int(self._train_samples[client]))
                steps_per_visit = self._epochs * self.steps_per_epoch(samples)
                steps = self.rules.planned_visits * steps_per_visit
                self.noise[client] = least_noise(rate, steps, self.rules.epsilon, self.rules.delta)


@cache
def epsilon_of(taken: tuple[tuple[float, int], ...], noise: float, delta: float) -> float:
    """Epsilon of steps at several rates: (probability of each sample, steps) of each."""
    if not taken:
        return 0.0
    opacus = _opacus_accounting()
    total = np.zeros(len(ORDERS))
    for rate, steps in taken:
        total += steps * _cost_of_step(rate, noise)
    with warnings.catch_warnings():
        # Other orders might give a tighter bound; this one holds all the same.
        warnings.filterwarnings("ignore", message="Optimal order is the")
        epsilon, _ = opacus.get_privacy_spent(orders=ORDERS, rdp=total, delta=delta)
    return float(epsilon)


@cache
def least_noise(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """The least noise with which this many steps cost at most epsilon, up to NOISE_PRECISION."""

    def fits(noise: float) -> bool:
        return epsilon_of(((rate, steps),), noise, delta) <= epsilon

    enough = 1.0
    while not fits(enough):
        enough *= 2
        if enough > MOST_NOISE:
            raise ConfigError(
                f"privacy.epsilon = {epsilon:g}: {steps} steps need more noise than makes sense; "
                "play fewer rounds, or allow a larger epsilon or delta"
            )
    too_little = enough / 2 if enough > 1 else LEAST_NOISE
    while enough / too_little > NOISE_PRECISION:
        middle = float(np.sqrt(enough * too_little))
        if fits(middle):
            enough = middle
        else:
            too_little = middle
    return enough


@cache
def _cost_of_step(rate: float, noise: float) -> FloatArray:
    """The Renyi divergences of one step, for each of ORDERS."""
    opacus = _opacus_accounting()
    cost = opacus.compute_rdp(q=rate, noise_multiplier=noise, steps=1, orders=ORDERS)
    return np.asarray(cost, dtype=np.float64)


def _opacus_accounting() -> ModuleType:
    """The accounting of Opacus, which takes seconds to import."""
    try:
        from opacus.accountants.analysis import rdp
    except ImportError:
        raise ConfigError(
            "privacy.epsilon: needs Opacus, which adds up what training costs; install it with "
            "pip install 'federico[privacy]'"
        ) from None
    module: ModuleType = rdp
    return module


def check_private_training(layout: ModelLayout) -> None:
    """Refuse models in which the gradient of one sample cannot be told from those of others."""
    _opacus_accounting()
    from opacus.validators import ModuleValidator

    template = layout.template
    wrong = [str(error) for error in ModuleValidator.validate(template.train(), strict=False)]
    template.eval()
    if layout.size > layout.parameters:
        wrong.append("it has float buffers (statistics of batches), which no noise protects")
    if layout.holds_frozen_parameters:
        wrong.append("some of its parameters are frozen; set training.shared = 'trainable'")
    if wrong:
        raise ConfigError(
            f"privacy.epsilon: this model cannot be trained with differential privacy: {wrong[0]}. "
            "Take a model whose samples do not see each other, for example with group norm "
            "instead of batch norm"
        )


class Noise:
    """The random numbers of one client's visit to one model: who is drawn, and what is added."""

    def __init__(self, rules: PrivacyRules, client: str, owner: int, round_index: int) -> None:
        self._drawing = stream(rules.secret, "drawn samples", client, owner, round_index)

        noise_key = key(rules.secret, "noise", client, owner, round_index)
        self._generator = torch.Generator()
        self._generator.manual_seed(noise_key % 2**63)  # what a generator takes

    def draw(self, samples: int, rate: float) -> IntArray:
        """The positions of the samples of a step, each of which comes with the same probability."""
        return np.flatnonzero(self._drawing.random(samples) < rate)

    def add_to(self, gradient: Tensor, deviation: float) -> None:
        """Add Gaussian noise of this deviation to every number, in place."""
        drawn = torch.randn(gradient.shape, generator=self._generator, dtype=gradient.dtype)
        gradient.add_(drawn.to(gradient.device), alpha=deviation)


def clip_factors(norms: Tensor, bound: float) -> Tensor:
    """By how much gradients of these lengths are shortened so that none is longer than `bound`."""
    return (bound / norms.clamp(min=1e-12)).clamp(max=1.0)
