"""The study of memory arithmetic: what it takes from profiles, and what it says of them."""

import pytest

from gputailor_agent.evaluation.studies.memory_models import STUDY, run

HEADER = "model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem,label\n"


def profiles(folder, *rows):
    (folder / "profiles").mkdir()
    path = folder / "profiles" / "single_job_utilisation.csv"
    path.write_text(HEADER + "".join(f"{row}\n" for row in rows), "utf-8")
    return folder


def figures(outcome):
    return {figure.name: figure for figure in outcome.figures}


def test_jobs_of_known_architecture_are_held_against_their_estimate(tmp_path):
    folder = profiles(
        tmp_path,
        "ResNet50,ImageNet,32,0,400,90,80,5500,2",
        "ResNet50,ImageNet,64,1,400,90,80,90000,2",
        "VGG,CIFAR-10,64,0,400,90,80,5500,2",
    )
    outcome = run(folder)
    inside = figures(outcome)["measured memory inside the interval, profiles"]
    assert (inside.cases, inside.value, inside.met) == (2, 0.5, False)
    assert any("CIFAR-10" in reason for reason in outcome.not_evaluable)


def test_without_a_job_that_is_known_the_profiles_say_unknown(tmp_path):
    outcome = run(profiles(tmp_path, "PPO,LunarLander,32,0,5,12,0,2051,0"))
    assert figures(outcome)["measured memory inside the interval, profiles"].value is None
    assert len(outcome.tables) == 1


def test_published_runs_are_there_without_any_data_and_meet_the_goal(tmp_path):
    inside = figures(run(profiles(tmp_path)))["measured memory inside the interval, published"]
    assert inside.cases >= 18
    assert inside.met


def test_the_study_names_its_file_as_missing(tmp_path):
    assert STUDY.missing(tmp_path) == ("profiles/single_job_utilisation.csv",)


@pytest.mark.restricted
def test_measured_profiles_lie_inside_the_interval(shared_data):
    found = figures(run(shared_data))
    inside = found["measured memory inside the interval, profiles"]
    assert inside.cases >= 8
    assert inside.met
    assert abs(found["median error of the expected value, profiles"].value) < 0.25
