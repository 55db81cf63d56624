"""The plain twin: a round of FedeRiCo as the field writes it, one client, one model and one batch
after the other.

A DataLoader per visit, copies of state dicts, torch's Adam. It runs in a process of its own,
because federico changes how its process keeps freed memory and how idle threads wait, and a plain
script does not.

Usage: python -m benchmarks.plain RUN    reads the numbers of rounds to play again, answers each
with a line of JSON
"""

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.store import ROOT
from benchmarks.work import Data, Models, Pair, Problem, Work, read_models, read_problem, work_of
from federico.rng import stream
from federico.runs.layout import CellDir
from federico.stopwatch import Stopwatch

State = dict[str, Tensor]


@dataclass(frozen=True)
class Played:
    """A round played again."""

    seconds: dict[str, float]
    losses: list[float]
    """Of every visit in the E-step."""
    test_losses: list[float]
    """Of every client's mixture at the end."""


class Plain:
    """Plays single rounds of a run again."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def play(self, work: Work, before: Models) -> Played:
        """The whole round, from the models before it."""
        states, moments = copy.deepcopy(before.states), copy.deepcopy(before.moments)
        clock = Stopwatch()
        with clock("e_step"):
            losses = [self._measure(states[b], self._problem.train[i]) for i, b in work.visits]
        with clock("m_step"):
            trained = {
                pair: self._train(pair, states[pair[1]], moments, work.round_index)
                for pair in work.trained
            }
        with clock("update"):
            states = [self._average(b, states[b], work, trained) for b in range(len(states))]
        with clock("evaluate"):
            test_losses = [self._score(i, row, states) for i, row in enumerate(work.mixtures)]
        return Played(clock.take().seconds, losses, test_losses)

    def _measure(self, state: State, data: Data) -> float:
        model, total = self._model(state).eval(), 0.0
        with torch.no_grad():
            for x, y in DataLoader(TensorDataset(*data), batch_size=self._problem.batch_size):
                total += float(self._problem.loss(model(x), y)) * len(y)
        return total / len(data[1])

    def _train(self, pair: Pair, state: State, moments: dict[Pair, Any], round_index: int) -> State:
        problem, (x, y) = self._problem, self._problem.train[pair[0]]
        model, adam = self._model(state).train(), problem.adam
        betas = (adam.beta1, adam.beta2)
        optimizer = torch.optim.Adam(
            model.parameters(), lr=adam.learning_rate, betas=betas, eps=adam.eps
        )
        if pair in moments:
            optimizer.load_state_dict({**optimizer.state_dict(), "state": moments[pair]})
        order = (
            stream(problem.seed, "batches", problem.names[pair[0]], round_index, 0)
            .permutation(len(y))
            .tolist()
        )
        for batch_x, batch_y in DataLoader(
            TensorDataset(x, y), batch_size=problem.batch_size, sampler=order
        ):
            optimizer.zero_grad()
            problem.loss(model(batch_x), batch_y).backward()
            optimizer.step()
        moments[pair] = copy.deepcopy(optimizer.state_dict()["state"])
        return copy.deepcopy(model.state_dict())

    def _average(self, owner: int, state: State, work: Work, trained: dict[Pair, State]) -> State:
        shares = {
            pair: weight * len(self._problem.train[pair[0]][1])
            for pair, weight in work.trained.items()
            if pair[1] == owner
        }
        new, total = copy.deepcopy(state), sum(shares.values())
        for pair, share in shares.items():
            for name, tensor in new.items():
                if tensor.is_floating_point():
                    tensor.add_(trained[pair][name] - state[name], alpha=share / total)
        return new

    def _score(self, client: int, weights: dict[int, float], states: list[State]) -> float:
        x, y = self._problem.test[client]
        mixed = sum(weight * self._predict(states[b], (x, y)) for b, weight in weights.items())
        assert isinstance(mixed, Tensor), "every client predicts with one model at least"
        if not self._problem.classes:
            return float(nn.functional.mse_loss(mixed, y))
        return float(nn.functional.nll_loss(mixed.clamp_min(1e-30).log(), y))

    @torch.no_grad()
    def _predict(self, state: State, data: Data) -> Tensor:
        model = self._model(state).eval()
        parts = [
            model(x)
            for x, _ in DataLoader(TensorDataset(*data), batch_size=self._problem.batch_size)
        ]
        outputs = torch.cat(parts)
        return outputs.double().softmax(1) if self._problem.classes else outputs

    def _model(self, state: State) -> nn.Module:
        model = self._problem.layout.new()
        model.load_state_dict(copy.deepcopy(state))
        return model


class Twin:
    """The plain twin, seen from the process that measures federico."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def play(self, round_index: int) -> Played:
        """Let it play this round of the run again."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{round_index}\n")
        self._process.stdin.flush()
        return Played(**json.loads(self._process.stdout.readline()))


@contextmanager
def twin(run: Path) -> Iterator[Twin]:
    """The plain twin for a run, ready to play."""
    command = [sys.executable, "-m", __name__, str(run)]
    pipe, plain = (
        subprocess.PIPE,
        {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"},
    )
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=plain
    ) as process:
        yield Twin(process)
        assert process.stdin is not None
        process.stdin.close()


def main() -> None:
    run = Path(sys.argv[1])
    problem = read_problem(run)
    plain = Plain(problem)
    for line in sys.stdin:
        cell = CellDir(run / f"federico-{problem.seed}")
        work = work_of(cell.records[int(line) - 1], problem.names, problem.w_min)
        before = read_models(cell, int(line) - 1, problem.layout)
        print(json.dumps(asdict(plain.play(work, before))), flush=True)


if __name__ == "__main__":
    main()
