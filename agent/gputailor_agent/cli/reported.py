"""What a report is made of on a command line: the plan of a scope, and what is known beside it."""

from dataclasses import replace

import msgspec

from gputailor_agent.assessment import Assessment
from gputailor_agent.cli.clusters import ClusterAccess
from gputailor_agent.cli.inputs import Inputs, assess_inputs
from gputailor_agent.cli.stored import reading
from gputailor_agent.model.judgement import Plan
from gputailor_agent.reports.beside import Beside, scoped_beside
from gputailor_agent.reports.remembering import of_files, of_store
from gputailor_agent.reports.scoping import EVERYTHING, Scope, scoped


def report_of(inputs: Inputs, scope: Scope = EVERYTHING) -> tuple[Plan, Beside]:
    """Judge what was asked for and keep what a report of ``scope`` tells.

    ``--namespace`` beside a store or files, with no live cluster named, is a scope.
    """
    if (inputs.store or inputs.archive) and inputs.live == _namespaces_only(inputs):
        scope = msgspec.structs.replace(scope, namespaces=inputs.live.namespaces)
        inputs = replace(inputs, live=ClusterAccess())
    assessed = assess_inputs(inputs)
    beside = beside_of(inputs, assessed)
    plan = scoped(assessed.plan, scope)
    if scope.everything:
        return plan, beside
    ids = [one.workload.id for one in plan.verdicts]
    return plan, scoped_beside(beside, ids, scope.text())


def _namespaces_only(inputs: Inputs) -> ClusterAccess:
    return ClusterAccess(namespaces=inputs.live.namespaces)


def beside_of(inputs: Inputs, assessed: Assessment) -> Beside:
    """What is known beside the plan: of a store all of it, of files the course of use."""
    if inputs.archive or inputs.prometheus.asked or not inputs.store:
        return of_files(assessed, inputs.rules)
    with reading(inputs.store) as store:
        return of_store(store, assessed.plan, assessed.resolution, inputs.rules)
