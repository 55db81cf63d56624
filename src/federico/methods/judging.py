"""Judges visited models on the samples that each client has held out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from federico.algorithm.evidence import (
    PRIOR_POWERS,
    Evidence,
    judge_classes,
    judge_values,
    log_label_prior,
)
from federico.learning.bank import Bank
from federico.learning.batches import Subset
from federico.learning.learner import Learner
from federico.learning.visits import Visits, positions_by
from federico.methods.answers import AnswerSketches, no_sketches
from federico.types import FloatArray, IntArray

MOST_NUMBERS = 1 << 22
"""Outputs that are held at a time; many clients are judged in several parts."""


@dataclass(frozen=True)
class Judgement:
    """The evidence on each visit of a round."""

    gain: FloatArray
    temperature: FloatArray
    prior_power: FloatArray
    log_likelihood: list[FloatArray]
    """Of each visit, by sample of the client; clients differ in how many they have."""
    by_sample: list[FloatArray]
    """What each sample adds to the gain, of each visit."""
    answers: FloatArray
    """Sketches of what each visit's model answers for those samples, see `AnswerSketches`."""

    def of(self, positions: IntArray) -> Evidence:
        """The evidence on the visits at these positions, which are one client's."""
        log_likelihood = [self.log_likelihood[position] for position in positions.tolist()]
        by_sample = [self.by_sample[position] for position in positions.tolist()]
        return Evidence(
            self.gain[positions],
            self.temperature[positions],
            self.prior_power[positions],
            np.stack(log_likelihood),
            np.stack(by_sample),
        )

    def take(self, positions: IntArray) -> "Judgement":
        """The evidence on the visits at these positions, whosever they are."""
        return Judgement(
            self.gain[positions],
            self.temperature[positions],
            self.prior_power[positions],
            [self.log_likelihood[position] for position in positions.tolist()],
            [self.by_sample[position] for position in positions.tolist()],
            self.answers[positions],
        )


class Judge:
    """Judges models on what the learner's clients have held out."""

    def __init__(
        self,
        learner: Learner,
        clients: IntArray,
        outputs: int,
        silent: Sequence[int] = (),
        seed: int = 0,
    ) -> None:
        """`clients` are those hosted here; the learner has already held out their samples.

        `silent` are those among them that send nothing while models are judged: no other peer's
        model was trained on any of their samples, so all of them tell what such a model is worth.
        """
        self._learner = learner
        self._silent = silent
        self._count = len(learner.names)
        self._classes = outputs
        self._sketches = AnswerSketches(learner.names, seed)
        self.log_priors: dict[int, FloatArray] = {}
        """log pi of each client's training labels, by client; empty for regression."""
        if learner.task == "classification":
            for client in clients.tolist():
                labels = learner.data["train"].targets_of(client).cpu().numpy()
                self.log_priors[client] = log_label_prior(labels, outputs)

    def judge(
        self, bank: Bank, visits: Visits, prior_powers: Sequence[float] = PRIOR_POWERS
    ) -> Judgement:
        """What the held-out samples of each visit's client say about its model.

        `prior_powers` are the powers of the label frequencies that are tried.
        """
        gain = np.zeros(len(visits))
        temperature = np.ones(len(visits))
        prior_power = np.zeros(len(visits))
        log_likelihood: list[FloatArray] = [np.empty(0)] * len(visits)
        by_sample: list[FloatArray] = [np.empty(0)] * len(visits)
        answers = no_sketches(len(visits))

        for positions in self._some_at_a_time(visits):
            some = visits[positions]
            outputs = self._learner.outputs(bank, some, "held_out")
            if self._learner.task == "classification":
                answers[positions] = self._sketches.of(outputs, some.clients)
            evidence = self._evidence(outputs, some, prior_powers, "held_out")
            gain[positions] = evidence.gain
            temperature[positions] = evidence.temperature
            prior_power[positions] = evidence.prior_power
            for place, position in enumerate(positions.tolist()):
                log_likelihood[position] = evidence.log_likelihood[place]
                by_sample[position] = evidence.by_sample[place]

        # Clients that hold nothing out have no evidence: what is not broken is worth a guess.
        without = self._learner.held_out[visits.clients] == 0
        gain[without & np.isfinite(gain)] = 0.0
        temperature[without] = 1.0
        prior_power[without] = 0.0
        for position in np.flatnonzero(without).tolist():
            log_likelihood[position] = np.empty(0)
            by_sample[position] = np.empty(0)

        by_all = self._judged_by_all(visits)
        for positions in self._some_at_a_time(visits[by_all], "all"):
            some = visits[by_all[positions]]
            outputs = self._learner.outputs(bank, some, "all")
            evidence = self._evidence(outputs, some, prior_powers, "all")
            gain[by_all[positions]] = evidence.gain
        return Judgement(gain, temperature, prior_power, log_likelihood, by_sample, answers)

    def answers(self, bank: Bank, visits: Visits) -> FloatArray:
        """Sketches of what the models of visits answer, as in their judgement."""
        answers = no_sketches(len(visits))
        if self._learner.task == "regression":
            return answers
        for positions in self._some_at_a_time(visits):
            some = visits[positions]
            outputs = self._learner.outputs(bank, some, "held_out")
            answers[positions] = self._sketches.of(outputs, some.clients)
        return answers

    def _judged_by_all(self, visits: Visits) -> IntArray:
        """Positions of the visits of silent clients to the models of other peers."""
        sends_nothing = np.isin(visits.clients, self._silent)
        belongs_to_client = visits.owners < self._count
        to_other = belongs_to_client & ~visits.are_own
        return np.flatnonzero(sends_nothing & to_other)

    def _some_at_a_time(self, visits: Visits, subset: Subset = "held_out") -> Iterator[IntArray]:
        """Positions of visits that are judged together: their clients have equally many samples."""
        counts = self._learner.data[subset].counts[visits.clients]
        for count, positions in positions_by(counts):
            outputs_of_visit = max(1, count * self._classes)
            at_a_time = max(1, MOST_NUMBERS // outputs_of_visit)
            for first in range(0, len(positions), at_a_time):
                yield positions[first : first + at_a_time]

    def _evidence(
        self,
        outputs: FloatArray,
        visits: Visits,
        prior_powers: Sequence[float],
        subset: Subset,
    ) -> Evidence:
        """The evidence on visits of clients that have equally many samples, from their outputs."""
        samples = self._learner.data[subset]
        # [visits, samples] or [visits, samples, outputs]
        targets = samples.targets_of_each(visits.clients).cpu().numpy()
        if self._learner.task == "regression":
            return judge_values(outputs, targets.reshape(outputs.shape).astype(np.float64))

        log_priors = np.stack([self.log_priors[client] for client in visits.clients.tolist()])
        return judge_classes(outputs, targets, log_priors, prior_powers)
