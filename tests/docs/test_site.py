"""The documentation as a site: it builds without a warning, and names nothing that is not there.

Links and anchors are checked by the build itself (mkdocs.yml: strict).
"""

import re
import subprocess
import sys

import pytest
import yaml

#: Pages that are written by hand for the site.
PAGES = (
    "comparison",
    "concepts",
    "extending",
    "index",
    "install",
    "migrating",
    "quickstart",
    "security-model",
    "settings",
)
METRIC = re.compile(r"\bgputailor_(?:device|container|exporter|agent)_[a-z0-9_]+")
MODULE = re.compile(r"python -m (gputailor_[a-z_.]+)")
PATH = re.compile(r"`((?:agent|exporter|dashboards|tests|helm)/[\w./*-]+)`")
#: Words that stand for a name of the reader's choice.
ANY = re.compile(r"NAME|\*")


@pytest.fixture(scope="module")
def words(repository):
    """Text of each page, by name."""
    return {name: (repository / "docs" / f"{name}.md").read_text("utf-8") for name in PAGES}


@pytest.mark.system
def test_the_site_builds_without_a_warning(repository, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "site")],
        cwd=repository,
        env={"NO_MKDOCS_2_WARNING": "1", "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    pages = {path.stem for path in (tmp_path / "site").glob("*.html")}
    assert set(PAGES) <= pages
    # Nothing is fetched from elsewhere: it can be read without a network.
    for name in ("index", "concepts"):
        text = (tmp_path / "site" / f"{name}.html").read_text("utf-8")
        fetched = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]+)"', text)
        assert [one for one in fetched if "canonical" not in one] == []


def test_every_page_has_its_place_in_the_navigation(repository):
    def names(part):
        if isinstance(part, str):
            return [part]
        parts = part.values() if isinstance(part, dict) else part
        return [name for one in parts for name in names(one)]

    site = yaml.safe_load((repository / "mkdocs.yml").read_text("utf-8"))
    there = {
        path.relative_to(repository / "docs").as_posix()
        for path in (repository / "docs").rglob("*.md")
        if not (path.parent.name == "alerts" and path.stem != "README")
    }
    listed = names(site["nav"])
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) == there


def test_the_chinese_readme_has_commands_and_links_of_the_english_one_or_of_the_pages(repository):
    def commands(name):
        lines = (repository / name).read_text("utf-8").splitlines()
        code = [line.strip() for line in lines if line.startswith("    ")]
        return {line.partition(" #")[0].rstrip() for line in code}

    chinese = commands("README.zh.md")
    assert len(chinese) > 5
    assert chinese <= commands("README.md")
    text = (repository / "README.zh.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)#]+)", text)
    assert [one for one in links if not (repository / one).exists()] == []


def test_every_metric_that_is_named_is_one(words, repository):
    known = set(METRIC.findall((repository / "docs" / "metrics.md").read_text("utf-8")))
    named = {(page, name) for page, text in words.items() for name in METRIC.findall(text)}
    assert named
    assert [one for one in named if one[1] not in known and not one[1].endswith("_")] == []


def test_every_file_and_module_that_is_named_is_there(words, repository):
    roots = [repository / part for part in ("agent", "exporter", "dashboards")]
    for page, text in words.items():
        for path in PATH.findall(text):
            place = repository / (path.rpartition("/")[0] if ANY.search(path) else path)
            assert place.exists(), (page, path)
        for module in MODULE.findall(text):
            file = module.replace(".", "/")
            found = [root / f"{file}.py" for root in roots] + [
                root / file / "__main__.py" for root in roots
            ]
            assert any(one.exists() for one in found), (page, module)


def test_every_command_that_is_named_is_one(words, repository):
    commands = set(
        re.findall(
            r"^## gputailor ([a-z ]+)$",
            (repository / "docs/cli.md").read_text("utf-8"),
            re.MULTILINE,
        )
    )
    first = {name.split()[0] for name in commands}
    for page, text in words.items():
        for name in re.findall(r"`gputailor ([a-z]+)", text):
            assert name in first, (page, name)
