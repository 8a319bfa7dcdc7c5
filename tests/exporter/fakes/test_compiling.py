"""C libraries of the tests are compiled once, by all that goes into them."""

import ctypes
import shutil

import pytest

from tests.fakes.compiling import compiled

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "answer.c"
    file.write_text("int answer(void);\nint answer(void) { return ANSWER; }\n", encoding="utf-8")
    return file


def built(tmp_path, source, answer=42, script=""):
    options = [f"-DANSWER={answer}"]
    return compiled(tmp_path / "c", "a.so", [source], options=options, version_script=script)


def test_what_was_built_before_is_used_again(tmp_path, source):
    first = built(tmp_path, source)
    assert ctypes.CDLL(str(first)).answer() == 42
    before = first.stat().st_mtime_ns
    assert built(tmp_path, source) == first
    assert first.stat().st_mtime_ns == before
    assert [file.name for file in first.parent.iterdir()] == ["a.so"]


def test_other_options_symbols_and_sources_are_other_libraries(tmp_path, source):
    hidden = built(tmp_path, source, script="{ local: *; };\n")
    with pytest.raises(AttributeError):
        ctypes.CDLL(str(hidden)).answer  # noqa: B018 - the look-up is what fails
    libraries = {hidden, built(tmp_path, source), built(tmp_path, source, 41)}
    source.write_text(source.read_text("utf-8") + "\n", encoding="utf-8")
    libraries.add(built(tmp_path, source))
    assert len(libraries) == 4


def test_what_the_compiler_has_to_say_is_told(tmp_path, source):
    source.write_text("int answer(void) { return 1 }\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"answer\.c"):
        built(tmp_path, source)
