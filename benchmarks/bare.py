"""The bare loop: the least a careful person would write for the E-step and the M-step of a round.

Data preloaded in channels-last memory, one model, one fused Adam, nothing kept and nothing copied.
"""

import torch
from torch import Tensor

from benchmarks.work import Pair, Problem, Work
from federico.stopwatch import Stopwatch

EVALUATION_BATCH = 100


class Bare:
    """Goes through the visits of a round with one and the same model."""

    def __init__(self, problem: Problem) -> None:
        self._data = [(_channels_last(x), y) for x, y in problem.train]
        self._model = problem.layout.new()
        if problem.train[0][0].dim() == 4:
            self._model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._adam = torch.optim.Adam(
            self._model.parameters(), lr=problem.adam.learning_rate, fused=True
        )
        self._loss, self._batch_size = problem.loss, problem.batch_size

    def play(self, work: Work) -> dict[str, float]:
        """Seconds of measuring and of training every visit."""
        clock = Stopwatch()
        with clock("e_step"):
            self._measure(work.visits)
        with clock("m_step"):
            self._train(list(work.trained))
        return clock.take().seconds

    @torch.no_grad()
    def _measure(self, visits: list[Pair]) -> None:
        self._model.eval()
        for client, _ in visits:
            x, y = self._data[client]
            for batch_x, batch_y in zip(
                torch.split(x, EVALUATION_BATCH), torch.split(y, EVALUATION_BATCH), strict=True
            ):
                self._loss(self._model(batch_x), batch_y)

    def _train(self, visits: list[Pair]) -> None:
        self._model.train()
        for client, _ in visits:
            x, y = self._data[client]
            for batch in torch.split(torch.randperm(len(y)), self._batch_size):
                self._adam.zero_grad()
                self._loss(self._model(x[batch]), y[batch]).backward()
                self._adam.step()


def _channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
