"""``gputailor plan``: the fewest changes that reach a saving, and what if."""

from collections.abc import Iterable
from typing import Annotated, Final

import typer

from gputailor_agent.cli import failing_on, options, showing
from gputailor_agent.cli.errors import THRESHOLD_EXCEEDED, UsageError
from gputailor_agent.cli.inputs import Inputs, assess_inputs
from gputailor_agent.cli.judged import judging
from gputailor_agent.cli.terminal import tell
from gputailor_agent.model.nearest import meant_or_known
from gputailor_agent.planner.targeting import Allowed, course
from gputailor_agent.reports import units
from gputailor_agent.reports.catalogues import ENGLISH, speaking
from gputailor_agent.reports.plan_target import compose, values
from gputailor_agent.rules import registry

_EPILOG: Final = """Examples:

  gputailor plan --store sqlite:///gputailor.db --target-saving 5000

  gputailor plan --store "$DB" --deny smaller_gpu,spot      # what if we keep the cards we have

  gputailor plan --store "$DB" --allow idle,too_many_gpus --prices ours.csv --output json

Exit code 3 when the target is not reached.
"""

_RULES: Final = "Which changes"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=_EPILOG)(judging(plan))


def plan(
    *,
    inputs: Inputs,
    target_saving: Annotated[
        float | None,
        typer.Option(
            "--target-saving",
            metavar="AMOUNT",
            help="Stop at the fewest changes that save so much per month, in the prices' currency.",
            rich_help_panel=_RULES,
            min=0,
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="RULE,…",
            help="Only changes of these rules. Repeatable.",
            rich_help_panel=_RULES,
        ),
    ] = None,
    deny: Annotated[
        list[str] | None,
        typer.Option(
            "--deny",
            metavar="RULE,…",
            help="No changes of these rules. Repeatable.",
            rich_help_panel=_RULES,
        ),
    ] = None,
    output: showing.Output = "table",
    language: options.Language = ENGLISH,
    fail_on: failing_on.FailOn = None,
) -> None:
    """Say which changes to make, what saves most first: one per workload, up to a saving.

    What if some rules were not to be used (--allow, --deny), or prices were others (--prices): the
    next best of each workload takes the place of what is left out.
    """
    wanted = failing_on.conditions(fail_on or ())
    allowed = Allowed(allow=rules_of("--allow", allow or ()), deny=rules_of("--deny", deny or ()))
    assessed = assess_inputs(inputs)
    found = course(assessed.plan, allowed, target_saving)
    with speaking(options.spoken_language(language)):
        document = compose(assessed.plan, found, allowed)
        showing.show(output, document, values(assessed.plan, found, allowed))
    if not found.reached:
        saved = units.amount(found.saved, found.currency, per="month")
        wanted_saving = units.amount(target_saving, found.currency, per="month")
        tell(f"these changes save {saved}, less than --target-saving {wanted_saving}")
        raise typer.Exit(THRESHOLD_EXCEEDED)
    failing_on.end(wanted, assessed.plan)


def rules_of(option: str, told: Iterable[str]) -> frozenset[str]:
    """Rules named by an option; raises ``UsageError`` for one that there is not."""
    named = [name.strip().replace("-", "_") for text in told for name in text.split(",")]
    known = [rule.id for rule in registry()]
    for name in named:
        if name not in known:
            raise UsageError(f"{option}: there is no rule {name!r}{meant_or_known(name, known)}")
    return frozenset(named)
