"""What a session found, as a table for a terminal."""

from __future__ import annotations

from .forms.form_session import FormSession
from .model.training import Samples, held_out, trained
from .plans.plan_session import PlanSession
from .session import Session
from .whole.parts import EVERY
from .whole.whole_session import WholeSession

_SHOWN = 20
_FEATURES = 5


def render(session: Session) -> str:
    """Return the kernels by their share of the model's time, and what all take together."""
    rows = sorted(session.tuners, key=lambda each: -each.task.calls * each.default_ns)
    lines = [f"{'kernel':40} {'calls':>5} {'default us':>11} {'best us':>9} {'gain':>6}  state"]
    for tuner in rows[:_SHOWN]:
        best = tuner.default_ns * 2.0**-tuner.gain
        lines.append(
            f"{tuner.task.name[:40]:40} {tuner.task.calls:5} {tuner.default_ns / 1e3:11.2f} "
            f"{best / 1e3:9.2f} {2.0**tuner.gain:6.3f}  {tuner.stage}"
        )
    if len(rows) > _SHOWN:
        lines.append(f"and {len(rows) - _SHOWN} more that take less")
    before, now = session.default_ns / 1e3, session.ns / 1e3
    ended = ", interrupted" if session.interrupted else ""
    lines.append(
        f"all kernels: {before:.1f} us by default, {now:.1f} us now: {before / now:.3f} times as "
        f"fast, {session.trials} trials{ended}"
    )
    return "\n".join(lines)


def render_forms(session: FormSession) -> str:
    """Return how many ops of a model are better in another form."""
    taken = "; ".join(f"{op}: {form}" for op, form in session.taken)
    gain = session.default_ns / session.ns if session.ns else 1.0
    better = f", the model {gain:.3f} times as fast by {taken}" if taken else ""
    return f"forms: {len(session.measured)} ops measured, {len(session.taken)} better{better}"


def render_plans(session: PlanSession) -> str:
    """Return how many parts of the fusion plan are better grouped otherwise."""
    other = [each for each in session.chosen if not each.is_planned]
    saved = (session.default_ns - session.ns) / 1e3
    return (
        f"fusion plan: {len(session.chosen)} parts measured, {len(other)} better otherwise, which "
        f"saves {saved:.1f} us where none overlap"
    )


def render_whole(session: WholeSession) -> str:
    """Return how many times as fast as by default the whole model is, and by what of the log."""
    if not session.taken:
        return "the whole model: no faster than by default, so that is what it runs by"
    alone = "" if session.taken == EVERY else f" by its {session.taken[0]} alone"
    return f"the whole model: {session.default_ns / session.ns:.3f} times as fast{alone}"


def describe(samples: Samples, seed: int) -> str:
    """Return how well a model of a log's trials ranks kernels that it has not seen, and by what."""
    kernels = len({*samples.kernels})
    told = f"log: {len(samples.rows)} trials of {kernels} kernels here"
    if not samples.suffice:
        return f"{told}, too few for a model"
    unseen = held_out(samples, seed)
    shares = [*trained(samples, seed).importances().items()][:_FEATURES]
    features = ", ".join(f"{name} {share:.2f}" for name, share in shares)
    return f"{told}; {unseen.accuracy:.2f} of pairs ranked right unseen, by {features}"
