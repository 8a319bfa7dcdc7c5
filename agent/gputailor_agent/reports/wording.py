"""From message keys to sentences, in the language that is spoken.

Rules, planner and reports hand over a ``Message``: a key and parameters. The templates live where
the message is born (each rule's ``messages``; tables ``MESSAGES`` of ``_PARTS``); they are joined
here, translated by the catalogue (``catalogues``: a template is its own id) and filled.

Templates are ``str.format`` templates. A parameter that is ``None`` reads ``unknown`` whatever its
format; besides Python's own formats a template may name a unit, e.g. ``{peak:bytes}``,
``{mean:ratio}``, ``{idle:seconds}``, ``{since:time}``, ``{price:usd_per_hour}``.
"""

import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from string import Formatter
from types import MappingProxyType, ModuleType
from typing import Any, Final

from gputailor_agent.model.judgement import Message, Scalar
from gputailor_agent.reports import recorded, units
from gputailor_agent.reports.catalogues import _, spoken
from gputailor_agent.reports.plurals import agreed
from gputailor_agent.reports.translating import translated
from gputailor_agent.rules import registry

#: The reports' own sentences.
MESSAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "report.no_workloads": "No workload is known to have held a GPU inside the window: none "
        "did, or measuring has only just begun.",
        "report.not_judged": "Not judged yet: no use of a GPU was measured inside the window. "
        "Where measuring has only just begun, the next report has more.",
        "report.unmeasured": "unknown, nothing is measured yet",
        "report.nothing_to_do": "Nothing to change was found with money on it.",
        "report.no_saving": "not quantified",
        "report.none_found": "nothing found",
        "report.ok": "fits",
        "log.no_samples": "The log holds no sample that could be read.",
        "log.idle": "GPU {gpu}: no work in any of {samples} samples over {observed:seconds}: "
        "not needed while this was recorded.",
        "log.idle_loaded": "GPU {gpu}: no work in any of {samples} samples over "
        "{observed:seconds}, while its memory was in use: something was loaded and waited. If that "
        "is how it always is, release it.",
        "log.idle_short": "GPU {gpu}: no work in any of {samples} samples, but "
        "{observed:seconds} is too short to call it idle ({needed:seconds} is needed).",
        "log.too_short": "GPU {gpu}: needs {need:bytes} so far (peak {peak:bytes} x {headroom}); a "
        "log of {held:seconds} is too short to say which card would do ({needed:seconds} is the "
        "least).",
        "log.idle_gaps": "GPU {gpu}: no work in any of {samples} samples, but these cover "
        "{share:ratio} of the time only: whether it was idle is not known.",
        "log.idle_contradicted": "GPU {gpu}: no work in any of {samples} samples, but it drew "
        "{power:watts} on average, more than a card that waits: whether it was idle is not known.",
        "log.nothing_loaded": "GPU {gpu}: at most {peak:bytes} of memory were used, less than any "
        "program that computes on it takes: nothing was loaded while this was recorded, so it does "
        "not tell what a run needs.",
        "log.no_memory": "GPU {gpu}: the log does not tell the memory used, so no card can be "
        "chosen.",
        "log.nothing_fits": "GPU {gpu}: needs {need:bytes} (peak {peak:bytes} x {headroom}): no "
        "card with a known price holds that.",
        "log.reserved": "GPU {gpu}: held about {peak:bytes} of {total:bytes} all the time: memory "
        "that hardly moves may have been taken in advance (as TensorFlow, JAX and vLLM do), so "
        "what the run needs is not known.",
        "log.none_cheaper": "GPU {gpu}: needs {need:bytes} (peak {peak:bytes} x {headroom}): of "
        "the cards that hold that, none is so much cheaper than {now} ({price_now}) that a change "
        "is worth it.",
        "log.would_do": "GPU {gpu}: needs {need:bytes} (peak {peak:bytes} x {headroom}): {device} "
        "would hold it at {price}; what {now} costs, and how much slower {device} would be, is not "
        "known.",
        "log.would_do_slower": "GPU {gpu}: needs {need:bytes} (peak {peak:bytes} x {headroom}): "
        "{device} would hold it at {price}, at most {slowdown:factor} the run time; what {now} "
        "costs is not known.",
        "log.cheaper": "GPU {gpu}: needs {need:bytes} (peak {peak:bytes} x {headroom}): {device} "
        "holds it at {price} instead of {price_now} for {now}, at most {slowdown:factor} the run "
        "time.",
        "log.try_cheaper": "GPU {gpu}: needs {need:bytes} (peak {peak:bytes} x {headroom}): "
        "{device} holds it at {price} instead of {price_now} for {now}, but could take up to "
        "{slowdown:factor} the run time, which would cost more or save too little: try one run.",
        "log.try_unbounded": "GPU {gpu}: needs {need:bytes} (peak {peak:bytes} x {headroom}): "
        "{device} holds it at {price} instead of {price_now} for {now}; how much slower it is "
        "cannot be bounded: try one run.",
        "log.one_unknown": "The log does not tell whether its GPU was used.",
        "log.activity_unknown": "The log does not tell whether its {count} GPUs were used.",
        "log.one_idle": "No sample shows work on the GPU.",
        "log.all_idle": "No sample shows work on any of the {count} GPUs.",
        "log.one_used": "The GPU was busy {mean:ratio} of the time on average.",
        "log.some_idle": "No sample shows work on {idle} of {count} GPUs ({names}): as far as this "
        "log goes, {needed} would have been enough.",
        "log.all_used": "All {count} GPUs were used, busy {mean:ratio} of the time on average.",
        "log.some_used": "{measured} of {count} GPUs have a known use, busy {mean:ratio} of the "
        "time on average; of the others it is not known.",
        "log.no_header": "Whether its columns are what they were taken for: there is no header; "
        "record without noheader.",
        "log.unknown_kernel": "GPU use: there is no utilisation column; log utilization.gpu.",
        "log.unknown_memory": "Memory: there is no memory.used column; log memory.used.",
        "log.memory_held": "How much of the memory held was needed: frameworks keep what they have "
        "freed, and some take most of a card in advance.",
        "log.memory_sampled": "The true memory peak: this is the highest of samples taken every "
        "{interval:seconds}; a peak between two samples is missed.",
        "log.unknown_energy": "Energy: there is no power column; log power.draw.",
        "log.unknown_model": "The GPU's model, so what it can do and costs: the log does not name "
        "it; say it with --gpu.",
        "log.model_not_in_catalogue": "What {model} can do and costs: it is not in the catalogue; "
        "name a similar card with --gpu.",
        "log.no_price": "What {device} costs: no list price is known; give one with --prices.",
        "log.bursts": "Bursts between samples: one is taken every {interval:seconds}, and "
        "utilisation is a mean over at most the second before it.",
        "log.unknown_activity": "How full the GPU was while it ran kernels ({signals}): nvidia-smi "
        "does not tell, so sharing, MIG slices and mixed precision cannot be judged; the exporter "
        "measures it where the driver can.",
        "log.unknown_run": "Whether this was the whole run, and a usual one: nothing is known of "
        "the time before and after.",
        "log.unknown_owner": "Which pod or person used the GPU: {path} names devices only; join it "
        "to a manifest with gputailor report --archive LOG --inventory MANIFEST --for "
        "NAMESPACE/NAME.",
    }
)

#: Parts below the reports whose modules may keep a table ``MESSAGES`` of their own.
_PARTS: Final = ("gputailor_agent.rules", "gputailor_agent.planner")


#: Marks that end a sentence, the full-width ones of Chinese too.
_END_MARKS: Final = ".!?\u3002\uff01\uff1f"


class MissingMessageError(KeyError):
    """A message key that no table knows: a fault of ours, an error in tests."""


class _Template(Formatter):
    """``str.format`` that writes ``None`` as unknown and knows our units as formats."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return units.unknown()
        if format_spec in units.UNITS or "_per_" in format_spec:
            return units.quantity(value, format_spec)
        return str(super().format_field(value, format_spec))


_TEMPLATE: Final = _Template()


@cache
def messages() -> Mapping[str, str]:
    """All templates by key; a key defined twice with different words is an error."""
    table: dict[str, str] = {}
    sources = [rule.messages for rule in registry()]
    sources += [getattr(module, "MESSAGES", {}) for name in _PARTS for module in _modules(name)]
    for source in (*sources, recorded.MESSAGES, MESSAGES):
        for key, template in source.items():
            if table.setdefault(key, template) != template:
                raise ValueError(f"message key {key!r} has two different templates")
    return MappingProxyType(table)


def _modules(name: str) -> Iterator[ModuleType]:
    """A module, and those of its package."""
    part = import_module(name)
    yield part
    for found in pkgutil.iter_modules(getattr(part, "__path__", []), f"{name}."):
        yield import_module(found.name)


def say(message: Message | None, *, strict: bool = False) -> str:
    """One sentence for a message; '' for None.

    An unknown key or parameter never hides what was said: the key and its parameters are written
    out plainly instead. With ``strict`` it raises ``MissingMessageError``.
    """
    if message is None:
        return ""
    template = messages().get(message.key)
    if template is not None:
        try:
            return agreed(_TEMPLATE.vformat(spoken().get(template), (), _params(message)))
        except (KeyError, ValueError, TypeError) as error:
            if strict:
                raise MissingMessageError(f"{message.key}: {error!r}") from error
    elif strict:
        raise MissingMessageError(message.key)
    params = ", ".join(f"{name}={value}" for name, value in sorted(message.params.items()))
    return f"{message.key} ({params})" if params else message.key


def _params(message: Message) -> Mapping[str, Scalar]:
    """What fills the template; texts of two words or more are no names and are translated."""
    if spoken().english:
        return message.params
    return {
        name: translated(value) if isinstance(value, str) and " " in value else value
        for name, value in message.params.items()
    }


def sentence(text: str) -> str:
    """Text that can stand among sentences: a capital first, an end mark last."""
    stripped = text.strip()
    if not stripped:
        return ""
    ended = stripped if stripped[-1] in _END_MARKS else stripped + _(".")
    return ended[0].upper() + ended[1:]


def joined(*sentences: str) -> str:
    """Sentences one after another; Chinese has no blank between them."""
    return (" " if spoken().english else "").join(one for one in sentences if one)
