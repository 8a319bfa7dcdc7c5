"""How a service is scaled to zero, by the kind of its root owner.

KServe and Knative do it themselves. For a Deployment or StatefulSet it takes something in front of
the service that sees the first request after a pause: an engine that is not there counts none, so
its own metrics cannot wake it. KEDA's HTTP add-on is such a thing.
"""

from typing import Any, Final

from gputailor_agent.model.judgement import Change, Scalar
from gputailor_agent.model.profile import Profile
from gputailor_agent.rules.changes import as_yaml, target_of

_KNATIVE: Final = "https://knative.dev/docs/serving/autoscaling/scale-to-zero/"
_KSERVE: Final = "https://kserve.github.io/website/"
_HTTP: Final = "https://kedacore.github.io/http-add-on/"
_MIN_SCALE: Final = "autoscaling.knative.dev/min-scale"
_BY_ITSELF: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "InferenceService": (
        "inferenceservice",
        {"spec": {"predictor": {"minReplicas": 0}}},
        "set spec.predictor.minReplicas to 1",
    ),
    "Service": (
        "ksvc",
        {"spec": {"template": {"metadata": {"annotations": {_MIN_SCALE: "0"}}}}},
        f"set the annotation {_MIN_SCALE} to 1",
    ),
}


def to_zero(profile: Profile, after_seconds: float) -> Change:
    """Return the change that stops the service after so many seconds without requests."""
    workload = profile.workload
    kubectl = f"kubectl -n {workload.namespace}"
    params: dict[str, Scalar] = {"replicas": 0, "stop_seconds": after_seconds}
    known = _BY_ITSELF.get(workload.kind)
    if known is None:
        return Change(
            kind="scale_to_zero",
            target=target_of(workload),
            params=params,
            code=as_yaml(_scaled_object(profile, after_seconds)),
            links=(_HTTP,),
            undo=f"{kubectl} delete httpscaledobject/{workload.name}",
        )
    name, patch, undo = known
    return Change(
        kind="scale_to_zero",
        target=target_of(workload),
        patch=as_yaml(patch),
        command=f"{kubectl} patch {name}/{workload.name} --type=merge --patch-file PATCH.yaml",
        params=params,
        links=(_KNATIVE,) if workload.kind == "Service" else (_KSERVE, _KNATIVE),
        undo=undo,
    )


def _scaled_object(profile: Profile, after_seconds: float) -> dict[str, Any]:
    workload = profile.workload
    return {
        "apiVersion": "http.keda.sh/v1alpha1",
        "kind": "HTTPScaledObject",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {
            "hosts": ["HOST"],
            "scaleTargetRef": {
                "apiVersion": workload.owner_api_version or "apps/v1",
                "kind": workload.kind,
                "name": workload.name,
                "service": "SERVICE",
                "port": 8000,
            },
            "replicas": {"min": 0, "max": max(1, profile.pods_now)},
            "scaledownPeriod": round(after_seconds),
        },
    }
