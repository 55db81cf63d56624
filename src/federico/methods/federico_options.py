"""The options of FedeRiCo. They are read without torch, as a site file must be."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, model_validator

from federico.algorithm.acceptance import REACH, Accept
from federico.algorithm.aggregation import Buffers, Say
from federico.algorithm.losses import Tracking
from federico.algorithm.sampling import Coin, Strangers
from federico.algorithm.trust_rules import TrustRule
from federico.options import Options

PAPER: dict[str, Any] = {
    "evidence": "training",
    "say": "sender",
    "accept": "any",
    "private_model": False,
    "w_max": 1.0,
}
"""The paper's rule: trust by training losses, and updates that count for what their sender says."""
LITERAL: dict[str, Any] = {
    **PAPER,
    "loss": "sum",
    "strangers": "literal",
    "solo_rounds": 0,
    "m_step": "gradient",
    "w_min": 0.0,
    "worse_than_guess": "tracked",
}
"""Algorithm 1 as printed, where the defaults differ from it."""
OF_TRAINING_LOSSES = ("tracking", "debias", "loss", "temperature", "worse_than_guess")
"""Options that say how training losses become a posterior."""


class FedericoOptions(Options):
    """Options of FedeRiCo.

    `docs/explanation-open-points.md` gives the reasons for the defaults.
    """

    preset: Literal["federico", "paper", "literal"] = "federico"
    """Sets the options you do not set yourself. `paper`: the paper's rule (`evidence`, `say`,
    `private_model`) with what experiments of the paper need to work; `literal`: Algorithm 1 as
    printed."""
    neighbors: NonNegativeInt = 3
    """M: how many other peers each peer visits per round; 0 is training alone, K-1 is all-to-all.
    If there are fewer others than the default, it means all of them."""
    evidence: Literal["held_out", "training"] = "held_out"
    """What trust in a model is made of. `held_out`: what the model is worth, in nats, on samples
    that the peer holds out of training; nothing has to be tuned. `training`: the softmax of
    training losses, as in the paper."""
    trust: TrustRule = "gain"
    """How held-out evidence becomes trust. `gain`: by the square of what a model is worth. The
    others are for comparison. `softmax`: the probability that the model is the true one;
    `bootstrap`: the same over resampled samples (pseudo-BMA+); `stacking`: the mixture that
    explains the held-out samples best."""
    held_out: float = Field(default=0.2, gt=0, lt=1)
    """Fraction of a peer's samples that it judges models by: at least one sample, but never all."""
    judging: float = Field(default=0.4, gt=0, le=1)
    """Fraction of the rounds after which trust can only fall, and what was held out is trained on.
    With 1 it never is."""
    private_model: bool = True
    """Whether each peer also trains a model alone, which it shows to nobody: what it would be
    without the others, and a part of what it predicts with as far as the held-out samples ask for
    it. Needs `evidence = "held_out"`."""
    together_prior: float = Field(default=0.8, gt=0, lt=1)
    """How much the collaborators' models count against the private model before there is evidence,
    where they move a peer's own model; worth two held-out samples."""
    predicting_prior: float = Field(default=0.5, gt=0, lt=1)
    """The same in what a peer predicts with. A peer that holds out fewer than eight samples takes
    `together_prior` for both: it has judged the models of others by all its samples. Where values
    are predicted, the odds of the collaborators are a quarter of these: 0.5 becomes 0.2."""
    say: Say = "mutual"
    """Who decides how much an update counts for. `mutual`: the sender, but not more than the owner
    of the model trusts the sender; `owner`: the owner's trust alone; `sender`: the sender alone, as
    in the paper. An owner trusts nobody whom it has not evaluated; with held-out evidence it
    evaluates senders next."""
    accept: Accept = "reach"
    """How an owner weighs what others send against the update that it has computed itself. `reach`:
    what is further from it than `reach` is drawn back towards it (self-centred clipping). `cosine`:
    by direction; what leads backwards counts for nothing, and what is longer than the owner's own
    updates is shortened (FLTrust). `median`, `trimmed`: in each coordinate the weighted median, or
    the weighted mean without the extremes; for owners with many contributors. `any`: nothing is
    weighed. Unless it is `any`, an owner that computes no update in a round is not moved, and with
    held-out evidence and `m_step = "epochs"` it judges what the updates of each contributor are
    worth to it: those of one that has cost it a nat are refused."""
    reach: PositiveFloat = REACH
    """How far an update may be from the owner's own under `accept = "reach"`, in usual lengths of
    the owner's own updates: their mean so far, or the present one if that is longer."""
    trim: float = Field(default=0.25, gt=0, lt=0.5)
    """What part of the weight `accept = "trimmed"` leaves out at either end."""
    sampler: Literal["epsilon_greedy", "uniform", "everyone"] = "epsilon_greedy"
    """How neighbors are chosen; `everyone` takes all others whatever `neighbors` says. Once trust
    is final, `epsilon_greedy` draws neighbors by trust."""
    epsilon: float = Field(default=0.3, ge=0, le=1)
    """Probability that a peer samples uniformly instead of taking the best."""
    coin: Coin = "per_round"
    """One epsilon coin per peer and round, or one per neighbor."""
    strangers: Strangers = "optimistic"
    """Peers never evaluated: tried once each (`optimistic`), reached through epsilon only
    (`cautious`, for hundreds of peers), or loss 0 in the posterior too (`literal`, which needs
    `evidence = "training"`)."""
    momentum: float = Field(default=0.6, gt=0, le=1)
    """beta: weight of the new gain or loss in the moving average."""
    tracking: Tracking = "ema"
    """How training losses are tracked: moving average, or accumulated over rounds."""
    debias: bool = False
    """Correct the moving average of training losses for its start at 0."""
    loss: Literal["mean", "sum"] = "mean"
    """Whether the posterior uses the mean or the sum of a peer's training losses."""
    temperature: PositiveFloat = 1.0
    """Divides the tracked training losses before the softmax; higher spreads the posterior."""
    worse_than_guess: Literal["ignored", "tracked"] = "ignored"
    """What to do with a model whose mean training loss is above ln C, the loss of giving all C
    classes the same probability. `ignored`: it gets no weight until a later visit finds it better,
    and its loss is tracked as ln C; if all models are worse, a peer's own gets all the weight.
    `tracked`: its loss is tracked like any other. No effect in regression."""
    w_min: float = Field(default=1e-4, ge=0, lt=1)
    """Posterior weights below this train nothing, send nothing and predict nothing; but with
    `m_step = "epochs"` a peer's own model is always trained."""
    w_max: float = Field(default=0.5, gt=0, le=1)
    """The largest weight that the model of one other peer has in what a peer predicts with. What is
    above goes to the rest of the mixture. With 1 there is no bound."""
    solo_rounds: NonNegativeInt = 1
    """Initial rounds in which every peer trains alone."""
    anchor: float = Field(default=0.0, ge=0, le=1)
    """Minimum share of a peer's own data in the update of its own model."""
    start: Literal["independent", "same"] = "independent"
    """Whether every peer starts from its own random model or all from one."""
    m_step: Literal["epochs", "gradient"] = "epochs"
    """Send the delta of local epochs, or one full-data gradient to an optimizer at the owner."""
    optimizer_state: Literal["kept", "fresh"] = "kept"
    """Whether a visitor keeps its optimizer's moments for a model between its visits."""
    buffers: Buffers = "average"
    """Batch-norm statistics: averaged like parameters, moved by the owner only, or frozen."""

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: Any) -> Any:
        """Fill in the preset's values for options that are not set."""
        presets = {"paper": PAPER, "literal": LITERAL}
        if isinstance(values, Mapping) and values.get("preset") in presets:
            return {**presets[values["preset"]], **values}
        return values

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Refuse options that contradict each other."""
        if self.debias and self.tracking == "accumulated":
            raise ValueError("debias corrects a moving average: it needs tracking = 'ema'")
        if self.m_step == "gradient" and (self.anchor > 0 or self.optimizer_state == "fresh"):
            raise ValueError(
                "anchor and optimizer_state = 'fresh' are about local epochs: "
                "they need m_step = 'epochs'"
            )
        if self.evidence == "training" and self.private_model:
            raise ValueError(
                "private_model is judged on held-out samples: with evidence = 'training' "
                "set private_model = false"
            )
        if self.evidence == "training" and self.trust != "gain":
            raise ValueError("trust is about held-out samples: it needs evidence = 'held_out'")
        self._refuse_options_of_other_rules()
        if self.evidence == "held_out":
            self._refuse_options_of_training_losses()
        return self

    def _refuse_options_of_other_rules(self) -> None:
        """Refuse what belongs to another way of weighing updates."""
        if self._is_changed("reach") and self.accept != "reach":
            raise ValueError("reach is about accept = 'reach': take it out, or set that")
        if self._is_changed("trim") and self.accept != "trimmed":
            raise ValueError("trim is about accept = 'trimmed': take it out, or set that")

    def _refuse_options_of_training_losses(self) -> None:
        """Refuse options that would have no effect."""
        for name in OF_TRAINING_LOSSES:
            if self._is_changed(name):
                raise ValueError(
                    f"{name} is about training losses: take it out, or set preset = 'paper'"
                )
        if self.strangers == "literal":
            raise ValueError("strangers = 'literal' is about training losses: set preset = 'paper'")

    def _is_changed(self, name: str) -> bool:
        """Whether an option has another value than its default."""
        default = type(self).model_fields[name].default
        return bool(getattr(self, name) != default)

    @property
    def always_trains_own(self) -> bool:
        """Whether a peer trains its own model however little it trusts it.

        It need not where owners sum up gradients and compare them with nothing.
        """
        return self.m_step == "epochs" or self.accept != "any"

    def most_neighbors(self, clients: int) -> int:
        """How many other peers a peer visits in a round: no more than there are."""
        others = clients - 1
        if self.sampler == "everyone":
            return others
        return min(self.neighbors, others)

    def judges(self, clients: int) -> bool:
        """Whether models are judged on held-out samples; there must be somebody to judge."""
        return self.evidence == "held_out" and self.most_neighbors(clients) > 0

    def has_private_models(self, clients: int) -> bool:
        """Whether peers train a model alone, too; without others their own is that already."""
        return self.private_model and self.judges(clients)

    def judges_updates(self, clients: int) -> bool:
        """Whether owners judge the updates of others on held-out samples; not under gradients."""
        return self.judges(clients) and self.accept != "any" and self.m_step == "epochs"
