"""What ``gputailor check`` says of manifests before they are applied: values, and their page."""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from gputailor_agent.estimating.holding import Holding
from gputailor_agent.inventory.mistakes import Mistake
from gputailor_agent.model.inventory import GpuRequest
from gputailor_agent.model.judgement import Finding, Message
from gputailor_agent.model.profile import Window
from gputailor_agent.reports import overview, units
from gputailor_agent.reports.catalogues import _
from gputailor_agent.reports.document import (
    Block,
    Bullets,
    Code,
    Column,
    Document,
    Facts,
    Heading,
    Paragraph,
    Table,
    headed,
)
from gputailor_agent.reports.explain import found_section
from gputailor_agent.reports.plurals import counted
from gputailor_agent.reports.translating import translated
from gputailor_agent.reports.wording import say
from gputailor_agent.rules import RuleSettings

#: ``none``: no history was given; ``unknown``: it has nothing of the workload; ``open``: it asks
#: for what history shows to be too much; ``done``, ``less``, ``elsewhere``: as in
#: ``planner.applied``; ``fine``: nothing to recommend; ``undecided``: too little was seen;
#: ``opted_out``: its annotations say so.
State = Literal[
    "none",
    "unknown",
    "open",
    "done",
    "less",
    "elsewhere",
    "fine",
    "undecided",
    "opted_out",
]

_PARTS: Final = (
    Column(title="part"),
    Column(title="least", numeric=True),
    Column(title="expected", numeric=True),
    Column(title="most", numeric=True),
)
_CARDS: Final = (
    Column(title="card"),
    Column(title="usable", numeric=True),
    Column(title="verdict"),
)
_NUMBERS: Final = (
    Column(title="number", least=24),
    Column(title="value", numeric=True),
    Column(title="held against", numeric=True),
    Column(title="passed"),
)


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What history says of one workload. ``asked``: what it asked for then.

    ``finding`` is the primary recommendation; ``why`` and ``text`` say why there is none.
    """

    state: State
    workload: str = ""
    window: Window | None = None
    asked: tuple[GpuRequest, ...] = ()
    gpu_hours: float | None = None
    finding: Finding | None = None
    why: Message | None = None
    text: str = ""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs that the commands would use beside those asked for, where the two differ.

    ``whole``: of all pods together, else of each. ``evidence``: what says so.
    """

    used: int
    asked: float
    whole: bool
    evidence: str


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One workload of the manifests. ``pods`` run at once, ``per_pod`` devices each.

    None where the manifest does not say how many (one pod for each node). ``fits``: False where
    the model that its arguments name needs more than any card or slice that may be meant.
    ``taken``: None where its commands use what it asks for, or do not say.
    """

    workload: str
    where: tuple[str, ...]
    asked: tuple[GpuRequest, ...]
    per_pod: float
    pods: int | None
    devices: float | None
    past: Past
    fits: bool | None
    memory: Holding
    taken: Taken | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer.

    ``changes``, ``misfits``, ``unlike`` and ``refused`` are what exit code 3 is for.
    """

    workloads: tuple[Checked, ...]
    mistakes: tuple[Mistake, ...]
    problems: tuple[str, ...]
    changes: int
    misfits: int
    refused: int
    unlike: int = 0
    schema_version: str = "1.1"

    @property
    def clean(self) -> bool:
        """Whether there is nothing to say to whoever wants to apply the manifests."""
        return not (self.changes or self.misfits or self.unlike or self.refused or self.problems)


def page(check: Check, rules: RuleSettings) -> Document:
    """The answer as a document; ``rules``: the settings that history was judged with."""
    title = _("Check before it is applied")
    blocks: list[Block] = [Heading(text=title, level=1)]
    lines = (*map(mistake_text, check.mistakes), *map(translated, check.problems))
    if lines:
        blocks += [Heading(text=_("In the manifests")), Bullets(lines=lines, tone="warn")]
    if not check.workloads and not check.problems:  # what was not read may ask for some
        blocks.append(Paragraph(text=_("No workload there asks for an accelerator.")))
    for one in check.workloads:
        blocks += _workload(one, rules)
    return Document(title=title, blocks=tuple(blocks))


def outcome(check: Check) -> str:
    """What exit code 3 is for, in a line; '' where there is nothing."""
    problems = check.refused + len(check.problems)
    parts = (
        (check.changes, counted(check.changes, "recommended change")),
        (check.misfits, _("{models} too large", models=counted(check.misfits, "model"))),
        (
            check.unlike,
            _("{requests} unlike the commands", requests=counted(check.unlike, "request")),
        ),
        (problems, _("{problems} in the manifests", problems=counted(problems, "problem"))),
    )
    return _(", ").join(text for number, text in parts if number)


def mistake_text(one: Mistake) -> str:
    """A mistake with its place, what was expected and what to do."""
    return f"{translated(one.where)}: {one.path}: {_mistake(one)}"


def _mistake(one: Mistake) -> str:
    if one.kind == "unknown" and one.meant:
        return _("no accelerator has this name; is {name} meant?", name=one.meant)
    if one.kind == "unknown":
        return _("no accelerator known here has this name, so it is not counted")
    if one.kind == "no_limit":
        return _("a request without a limit; put {number} under limits, too", number=one.request)
    if one.kind == "unequal":
        return _(
            "the limit is {limit} and the request {request}; they must be equal",
            limit=one.limit,
            request=one.request,
        )
    if one.kind == "zero":
        return _("0 asks for none; take the line out, or ask for one")
    return _(
        "expected a whole number above 0, found {number}; a part of a card is asked for as a MIG "
        "slice or a shared one",
        number=one.limit or one.request,
    )


def _workload(one: Checked, rules: RuleSettings) -> Iterator[Block]:
    yield Heading(text=one.workload)
    facts = [
        (_("written in"), _(", ").join(map(translated, one.where))),
        (_("asks for"), _asked(one)),
        (_("commands use"), _taken_by(one.taken)),
        (_("history"), _history(one.past)),
        (_("memory of the model"), _memory(one.memory)),
    ]
    yield Facts(pairs=tuple((label, text) for label, text in facts if text))
    finding = one.past.finding
    if finding is not None and one.past.state in {"open", "elsewhere"}:
        yield from _recommended(finding, rules)
    yield from _arithmetic(one.memory)


def _asked(one: Checked) -> str:
    if one.pods is None:
        return _("{devices} per pod; how many pods is not said", devices=_requests(one.asked))
    return _(
        "{devices} per pod, {pods}, {total} in all",
        devices=_requests(one.asked),
        pods=counted(one.pods, "pod"),
        total=units.count(one.devices),
    )


def _taken_by(taken: Taken | None) -> str:
    if taken is None:
        return ""
    told = {
        "used": counted(taken.used, "GPU"),
        "said": translated(taken.evidence),
        "asked": units.count(taken.asked),
        "whose": _("all pods") if taken.whole else _("each pod"),
    }
    if taken.used > taken.asked:
        return _(
            "{used} ({said}), and {whose} would have {asked}: it will not start, or processes "
            "share a GPU",
            **told,
        )
    return _(
        "{used} ({said}), and {whose} would have {asked}: {left} would stay unused, unless a "
        "process takes several",
        left=units.count(taken.asked - taken.used),
        **told,
    )


def _requests(asked: tuple[GpuRequest, ...]) -> str:
    return ", ".join(f"{units.count(one.count)} x {one.resource}" for one in asked)


def _history(past: Past) -> str:
    if past.state == "none":
        return _("none was given (--store, --archive or --prometheus-url), so nothing is judged")
    if past.state == "unknown":
        return _unseen(past)
    told = {
        "open": _("a change is recommended"),
        "elsewhere": _("a change is recommended that is not one of the manifest"),
        "done": _("as recommended"),
        "less": _("it asks for less than was recommended"),
        "fine": _("nothing to change"),
        "undecided": _("too little is known"),
        "opted_out": _("opted out"),
    }[past.state]
    more = say(past.why) or past.text
    if past.window is None:
        return f"{told}: {more}" if more else told
    seen = _(
        "{hours} GPU-hours of {asked} in {window}",
        hours=units.count(past.gpu_hours),
        asked=_requests(past.asked),
        window=overview.window_text(past.window),
    )
    return f"{told} ({seen}): {more}" if more else f"{told} ({seen})"


def _unseen(past: Past) -> str:
    text = _("unknown: it has no use of {workload}", workload=past.workload)
    if past.workload.startswith("default/"):
        text += "; " + _("--namespace says where a manifest belongs that names no namespace")
    return text


def _recommended(finding: Finding, rules: RuleSettings) -> Iterator[Block]:
    section = found_section(finding, _("recommended"), rules)
    yield Heading(text=section.title, level=3)
    yield Paragraph(text=section.text, tone="warn")
    yield Facts(pairs=tuple((one.label, one.text) for one in section.facts))
    rows = tuple((one.name, one.value, one.held_against, one.passed) for one in section.numbers)
    yield Table(columns=headed(_NUMBERS), rows=rows)
    for text, language in ((section.patch, "yaml"), (section.code, "python")):
        if text:
            yield Code(text=text, language=language)


def _memory(memory: Holding) -> str:
    if memory.why:
        why = {
            "no_model": _("arguments and environment name no model whose size is known"),
            "divided": _("it is divided over GPUs in a way that is not calculated here"),
            "offloaded": _("a part of it is kept outside the GPU, by its arguments"),
            "clash": _("its arguments do not go together"),
            "part": _("a part of a card of unknown size is asked for"),
            "no_card": _("which card it gets is not known; a node selector or history says it"),
        }[memory.why]
        named = f"{memory.model}: " if memory.model else ""
        return f"{units.unknown()}: {named}{why}"
    best = max(memory.held, key=lambda one: one.usable_bytes)
    text = f"{memory.model}: {_verdicts()[best.verdict]} ({best.name})"
    if memory.shared:
        text += "; " + _("others use the same card, so less may be free")
    return text


def _verdicts() -> dict[str, str]:
    return {
        "fits": _("fits"),
        "tight": _("probably fits: try one run"),
        "unlikely": _("probably does not fit"),
        "no": _("does not fit"),
    }


def _arithmetic(memory: Holding) -> Iterator[Block]:
    if memory.total is None:
        return
    yield Heading(text=_("Memory per GPU by arithmetic"), level=3)
    yield Facts(pairs=((_("said by"), _(", ").join(map(translated, memory.said))),))
    rows = [(translated(part.name), part.bytes) for part in memory.parts]
    rows.append((_("total"), memory.total))
    yield Table(
        columns=headed(_PARTS),
        rows=tuple(
            (name, *map(units.size, (amount.low, amount.expected, amount.high)))
            for name, amount in rows
        ),
    )
    if memory.held:
        yield Table(
            columns=headed(_CARDS),
            rows=tuple(
                (one.name, units.size(one.usable_bytes), _verdicts()[one.verdict])
                for one in memory.held
            ),
            caption=_taken(memory),
        )
    if memory.notes:
        yield Bullets(lines=tuple(map(translated, memory.notes)))


def _taken(memory: Holding) -> str:
    if memory.utilisation is None:
        return ""
    share = units.ratio(memory.utilisation)
    return _("Usable: the {share} of the card that the engine takes.", share=share)
