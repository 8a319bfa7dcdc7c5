import gzip
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputailor_agent.inventory.files import read_inventory
from tests.agent.inventory.objects import (
    NOON_SECONDS,
    container,
    controller,
    inventory_of,
    listed,
    pod,
)

TWO_PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: one, uid: a}
spec: {nodeName: n, containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]}
status: {phase: Running}
---
# only a comment

---
apiVersion: v1
kind: Pod
metadata: {name: two, uid: b}
spec: {nodeName: n, containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]}
status: {phase: Running}
"""


def _names(found):
    return sorted(one.name for one in found.pods)


def test_several_yaml_documents_are_read(tmp_path):
    found = inventory_of(tmp_path, TWO_PODS)
    assert _names(found) == ["one", "two"]
    assert found.problems == ()


def test_a_json_list_of_mixed_kinds_is_read(tmp_path):
    text = listed(pod("one"), controller("Job", "j", uid="u"), {"apiVersion": "v1", "kind": "Node",
                  "metadata": {"name": "n"}})  # fmt: skip
    found = inventory_of(tmp_path, text, "all.json")
    assert _names(found) == ["one"]
    assert [node.name for node in found.nodes] == ["n"]


def test_items_of_a_typed_list_need_no_kind_of_their_own(tmp_path):
    item = pod("one")
    del item["kind"], item["apiVersion"]
    found = inventory_of(tmp_path, json.dumps({"kind": "PodList", "items": [item]}), "raw.json")
    assert _names(found) == ["one"]


def test_lists_inside_lists_are_taken_apart(tmp_path):
    inner = json.loads(listed(pod("deep")))
    found = inventory_of(tmp_path, json.dumps({"kind": "List", "items": [inner, pod("flat")]}))
    assert _names(found) == ["deep", "flat"]


def test_a_yaml_list_and_single_documents_mix(tmp_path):
    text = (
        "kind: List\napiVersion: v1\nitems:\n- kind: Node\n  metadata: {name: a}\n---\n" + TWO_PODS
    )
    found = inventory_of(tmp_path, text)
    assert _names(found) == ["one", "two"]
    assert len(found.nodes) == 1


def test_json_objects_after_each_other_are_read(tmp_path):
    text = json.dumps(pod("one"), indent=1) + "\n" + json.dumps(pod("two")) + "\n"
    assert _names(inventory_of(tmp_path, text, "watch.json")) == ["one", "two"]


def test_a_top_level_json_array_is_read(tmp_path):
    assert _names(inventory_of(tmp_path, json.dumps([pod("one")]), "array.json")) == ["one"]


@pytest.mark.parametrize("encode", [
    lambda text: gzip.compress(text.encode()),
    lambda text: b"\xef\xbb\xbf" + text.encode(),
    lambda text: text.encode("utf-16"),
    lambda text: text.replace("\n", "\r\n").encode(),
])  # fmt: skip
@pytest.mark.parametrize("text", [TWO_PODS, listed(pod("one"), pod("two"))])
def test_gzip_bom_utf16_and_windows_line_ends_are_read(tmp_path, encode, text):
    file = tmp_path / "packed"
    file.write_bytes(encode(text))
    found = read_inventory([file], "lab", NOON_SECONDS)
    assert _names(found) == ["one", "two"]
    assert found.problems == ()


def test_yaml_directives_and_end_marks_are_no_documents(tmp_path):
    found = inventory_of(tmp_path, "%YAML 1.1\n---\n" + TWO_PODS + "...\n")
    assert _names(found) == ["one", "two"]
    assert found.problems == ()


def test_json_that_was_cut_off_says_so(tmp_path):
    found = inventory_of(tmp_path, listed(pod("one"))[:-40], "cut.json")
    assert "not JSON" in found.problems[0]
    assert "cut off" in found.problems[0]


def test_folders_are_searched_and_other_files_in_them_left_alone(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.yaml").write_text(TWO_PODS)
    (tmp_path / "three.json.gz").write_bytes(gzip.compress(listed(pod("three")).encode()))
    (tmp_path / "README.md").write_text("not: {read")
    found = read_inventory([tmp_path], "lab", NOON_SECONDS)
    assert _names(found) == ["one", "three", "two"]
    assert found.problems == ()


def test_the_later_version_of_the_same_pod_counts_whatever_the_order(tmp_path):
    old, new = pod("one", uid="u", phase="Running"), pod("one", uid="u", phase="Succeeded")
    old["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"] = "9", "10"
    for objects in ((old, new), (new, old)):
        found = inventory_of(tmp_path, listed(*objects), "twice.json")
        assert [one.phase for one in found.pods] == ["Succeeded"]


def test_a_broken_document_is_told_with_its_line_and_the_others_go_on(tmp_path):
    text = TWO_PODS.replace("# only a comment", "kind: Pod\n\tmetadata: x")
    found = inventory_of(tmp_path, text)
    assert _names(found) == ["one", "two"]
    assert len(found.problems) == 1
    assert "document 2 (line 8)" in found.problems[0]
    assert "tab" in found.problems[0]
    assert "expected" in found.problems[0]


def test_an_unrendered_helm_template_says_how_to_render_it(tmp_path):
    found = inventory_of(tmp_path, "kind: Pod\nspec:\n  {{- toYaml .Values.x | nindent 2 }}\n")
    assert "helm template" in found.problems[0]


def test_kubectls_table_says_which_option_is_missing(tmp_path):
    found = inventory_of(tmp_path, "NAME    READY   STATUS\nweb-1   1/1     Running\n", "pods.txt")
    assert "-o json" in found.problems[0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"  \n\n", "is empty"),
        (b"\x7fELF\x00\x01\x02", "binary"),
        (b"\x1f\x8bbroken", "cannot be read"),
        (b'{"kind": "Pod", "metadata": {"na', "not YAML"),
        (b"replicas: 3\nimage: x\n", "has no `kind`"),
        (b"just words", "not an object"),
        (b"- 1\n", "not an object"),
        (b"kind: Pod\nspec: &a {containers: [*b]}\n", "not YAML"),
        (b"kind: Pod\nmetadata: [1, 2]\n", "cannot be read"),
        (b"kind: Pod\nspec: {containers: 3}\n", "cannot be read"),
        (b"kind: Node\nstatus: none\n", "cannot be read"),
        (
            b"kind: Job\nmetadata: {name: x}\nspec: {template: {spec: {containers: [{name: a, env: 3}]}}}",
            "cannot be read",
        ),
    ],
)
def test_what_cannot_be_read_is_a_problem_that_names_the_file(tmp_path, content, said):
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    found = read_inventory([file], "lab", NOON_SECONDS)
    assert len(found.problems) == 1
    assert str(file) in found.problems[0]
    assert said in found.problems[0]
    assert found.pods == ()


def test_a_missing_path_and_an_empty_folder_are_problems(tmp_path):
    (tmp_path / "empty").mkdir()
    found = read_inventory([tmp_path / "nowhere", tmp_path / "empty"], "lab", NOON_SECONDS)
    assert "no such file" in found.problems[0]
    assert "in this folder" in found.problems[1]


def test_one_item_of_a_list_that_cannot_be_read_does_not_take_the_others_along(tmp_path):
    bad = pod("bad")
    bad["spec"]["containers"] = "none"
    found = inventory_of(tmp_path, listed(pod("one"), bad, pod("two")), "list.json")
    assert _names(found) == ["one", "two"]
    assert "item 2" in found.problems[0]


def test_a_document_that_contains_itself_is_survived(tmp_path):
    text = "kind: Odd\nmetadata: {name: x}\nspec: &a\n  inner: *a\n  list: &b [*b, *a]\n"
    assert inventory_of(tmp_path, text).pods == ()


def test_a_document_of_nested_aliases_is_read_in_no_time(tmp_path):
    lines = ["kind: Odd", "metadata: {name: x}", "a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    assert inventory_of(tmp_path, "\n".join(lines)).pods == ()


def test_numbers_and_booleans_where_strings_belong_are_taken_as_text(tmp_path):
    text = """\
kind: Pod
metadata: {name: 7, uid: a, labels: {on: yes, tier: 3}, annotations: {gpu-fraction: 0.5}}
spec:
  nodeName: n
  containers: [{name: main, command: [sleep, 5], env: [{name: A, value: 1}]}]
status: {phase: Running}
"""
    found = inventory_of(tmp_path, text)
    assert found.problems == ()
    assert found.pods[0].name == "7"
    assert found.pods[0].labels["tier"] == "3"
    assert found.pods[0].containers[0].command == ("sleep", "5")
    assert found.pods[0].containers[0].gpus[0].count == 0.5


def test_unquoted_times_stay_times(tmp_path):
    found = inventory_of(
        tmp_path, TWO_PODS.replace("uid: a", "uid: a, creationTimestamp: 2026-03-02T12:00:00Z")
    )
    assert found.pods[0].created == NOON_SECONDS


@settings(max_examples=60, deadline=None)
@given(
    cut=st.integers(0, 100),
    noise=st.binary(max_size=12),
    seed=st.sampled_from([TWO_PODS, listed(pod("one"))]),
)
def test_no_mutilated_file_ends_in_a_traceback(tmp_path_factory, cut, noise, seed):
    content = seed.encode()
    at = len(content) * cut // 100
    file = Path(tmp_path_factory.mktemp("cut")) / "cut.yaml"
    file.write_bytes(content[:at] + noise + content[at + 7 :])
    found = read_inventory([file], "lab", NOON_SECONDS)
    assert all(str(file) in problem for problem in found.problems)


def test_ten_thousand_pods_of_json_are_read_in_a_few_seconds(tmp_path):
    some = [pod(f"train-{n}-x7k2p", uid=f"u{n}", containers=[container(env=[{"name": "A", "value": "b"}])])
            for n in range(10_000)]  # fmt: skip
    file = tmp_path / "big.json"
    file.write_text(listed(*some))
    before = time.process_time()
    found = read_inventory([file], "lab", NOON_SECONDS)
    assert len(found.pods) == 10_000
    assert time.process_time() - before < 4.0  # 1.0 s on an idle core of 2020
