import pytest

from gputailor_agent.inventory.identity import resolve
from tests.agent.inventory.objects import container, inventory, owner, pod

MLFLOW = {
    "MLFLOW_TRACKING_URI": "https://user:word@mlflow.example:5000/",
    "MLFLOW_EXPERIMENT_NAME": "captions",
    "MLFLOW_EXPERIMENT_ID": "7",
    "MLFLOW_RUN_ID": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
}
WANDB = {"WANDB_ENTITY": "lab", "WANDB_PROJECT": "captions", "WANDB_RUN_ID": "3xk2p"}


def _pod(name, env, **more):
    variables = [{"name": key, "value": value} for key, value in env.items()]
    return pod(name, containers=[container(env=variables)], **more)


def _workload(tmp_path, *pods):
    (workload,) = resolve(inventory(tmp_path, *pods)).workloads
    return workload


def test_an_mlflow_run_is_named_and_linked_without_the_credentials(tmp_path):
    workload = _workload(tmp_path, _pod("a", MLFLOW))
    (seen,) = workload.tracked
    assert (seen.tracker, seen.experiment, seen.run) == (
        "mlflow",
        "captions",
        MLFLOW["MLFLOW_RUN_ID"],
    )
    run = MLFLOW["MLFLOW_RUN_ID"]
    assert seen.link == f"https://mlflow.example:5000/#/experiments/7/runs/{run}"


def test_runs_of_one_experiment_are_one_series_whatever_they_are_called(tmp_path):
    pods = [
        _pod(name, {**MLFLOW, "MLFLOW_RUN_ID": name}, owners=[owner("Job", name, f"u-{name}")])
        for name in ("brave-tiger", "calm-otter")
    ]
    resolution = resolve(inventory(tmp_path, *pods))
    assert [one.id for one in resolution.workloads] == ["team-a/Job/captions/main"]
    assert sorted(one.tracked[0].run for one in resolution.runs) == ["brave-tiger", "calm-otter"]


def test_a_weights_and_biases_project_links_but_only_a_group_names_a_series(tmp_path):
    alone = _workload(tmp_path, _pod("fit-1", WANDB))
    assert alone.id == "team-a/Pod/fit/main"
    assert alone.tracked[0].link == "https://wandb.ai/lab/captions/runs/3xk2p"
    grouped = _workload(tmp_path, _pod("fit-1", {**WANDB, "WANDB_RUN_GROUP": "sizes"}))
    assert grouped.id == "team-a/Pod/captions.sizes/main"


def test_an_own_server_of_weights_and_biases_is_linked(tmp_path):
    env = {**WANDB, "WANDB_BASE_URL": "https://wandb.lab.example"}
    (seen,) = _workload(tmp_path, _pod("fit", env)).tracked
    assert seen.link == "https://wandb.lab.example/lab/captions/runs/3xk2p"


@pytest.mark.parametrize(
    ("labels", "tracker", "experiment", "run"),
    [
        ({"pipeline/runid": "5f3a"}, "kubeflow", "", "5f3a"),
        ({"katib.kubeflow.org/experiment": "rates", "katib.kubeflow.org/trial": "rates-x2k4p"},
         "katib", "rates", "rates-x2k4p"),
    ],
)  # fmt: skip
def test_kubeflow_s_labels_name_run_and_experiment(tmp_path, labels, tracker, experiment, run):
    (seen,) = _workload(tmp_path, pod("a", labels=labels)).tracked
    assert (seen.tracker, seen.experiment, seen.run, seen.link) == (tracker, experiment, run, "")


@pytest.mark.parametrize("address", ["file:///runs", "sqlite:///x.db", "databricks", "http://["])
def test_an_address_that_is_no_web_page_gives_no_link(tmp_path, address):
    env = {**MLFLOW, "MLFLOW_TRACKING_URI": address}
    assert _workload(tmp_path, _pod("a", env)).tracked[0].link == ""


def test_the_default_experiment_names_nothing(tmp_path):
    env = {"MLFLOW_EXPERIMENT_NAME": "Default"}
    assert _workload(tmp_path, _pod("fit-1", env)).id == "team-a/Pod/fit/main"


def test_a_service_keeps_its_own_name(tmp_path):
    made = _pod("chat-1", MLFLOW, owners=[owner("StatefulSet", "chat", "u")])
    assert _workload(tmp_path, made).id == "team-a/StatefulSet/chat/main"


def test_a_pod_that_says_nothing_is_not_tracked(tmp_path):
    assert _workload(tmp_path, pod("a")).tracked == ()
