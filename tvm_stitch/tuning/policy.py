"""What the tuner's search and stops go by, in one place. Gains are in powers of two."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .forms import form_policy
from .forms.form_policy import FormPolicy
from .plans import plan_policy
from .plans.plan_policy import PlanPolicy
from .whole import whole_policy
from .whole.whole_policy import WholePolicy


@dataclass(frozen=True)
class KernelPolicy:
    """Of one kernel.

    `better`: a gain that is no noise. `stale`: batches without a better one, until the search
    descends; `patient`: until the descent ends, which sees most knobs of the best in as many.
    `again`: the best so far that are timed with each batch anew, for the luckiest leads. `hope`:
    what a kernel may gain that nothing is known of. `confirmed`: the best that are timed once more,
    at most; `pooled`: batches that one was timed in before, from which on the gains of these count
    as well. `walked`: of a batch, found on a walk by the model of so many `steps`; `first`: of the
    first batch, where a model of other kernels is all that is known, or none: then some knobs, at
    most `moved`, are moved at random. `paired`: of a batch, of so many `sampled` near the best what
    has most values together that were not tried so. `hopeless`: what is predicted to take as many
    times as long as the best is neither paired nor descended to.
    """

    better: float = math.log2(1.01)
    stale: int = 5
    patient: int = 8
    again: int = 2
    hope: float = math.log2(1.1)
    confirmed: int = 6
    pooled: int = 3
    walked: int = 4
    first: int = 8
    moved: int = 4
    steps: int = 6
    paired: int = 3
    sampled: int = 32
    hopeless: float = 1.25


@dataclass(frozen=True)
class ConfirmingPolicy:
    """Of the best of a kernel that are timed once more, for turns of `slice_ns`.

    They are `few`, in two libraries. All, in as many libraries as `readings`, if the kernel is a
    `share` of the model and that many of its candidates were `timed`; if its default is `brief_ns`
    or less, half of these in new processes.
    """

    slice_ns: int = 4_000_000
    few: int = 3
    readings: int = 6
    share: float = 0.1
    timed: int = 32
    brief_ns: float = 50e3


@dataclass(frozen=True)
class SessionPolicy:
    """Of a model.

    `batch`: candidates that are measured together. `stays`: of the largest promise, above it the
    session stays with a kernel, for to turn to another takes as long as some trials. `worth`: of
    the model's time that is predicted to be gained yet, below it is not searched. `confirm_s`:
    seconds kept at least for a kernel's confirmation, for which it is loaded and timed for longer.
    `taken`: CPUs of other processes, above which what is found may not suit an idle machine.
    """

    batch: int = 8
    stays: float = 0.7
    worth: float = 0.002
    confirm_s: float = 1.5
    taken: float = 0.25
    confirming: ConfirmingPolicy = ConfirmingPolicy()


@dataclass(frozen=True)
class ReusePolicy:
    """Of a log that is read. `worth`: a gain that is worth other decisions; `unsure`: of a trial
    that was timed shortly, as all are of a search that was cut off. `near_ns`: what is shorter
    takes nothing of another size, for it is a few register tiles, of which the rows left over are
    many. `steps`: the knobs that learnt decisions change, the best of many that are predicted:
    by so many `errors` of the model more than worth.
    """

    worth: float = math.log2(1.02)
    unsure: float = math.log2(1.1)
    near_ns: float = 1e3
    steps: int = 3
    errors: float = 2.0


@dataclass(frozen=True)
class TuningPolicy:
    kernel: KernelPolicy = KernelPolicy()
    session: SessionPolicy = SessionPolicy()
    reuse: ReusePolicy = ReusePolicy()
    plans: PlanPolicy = plan_policy.DEFAULT
    forms: FormPolicy = form_policy.DEFAULT
    whole: WholePolicy = whole_policy.DEFAULT


POLICY = TuningPolicy()
