"""Where the driver's library may lie."""

import shutil
import subprocess
import sys

CODE = """
import sys
from gputailor_exporter.devices.nvml_library import preload
print(preload({"LD_LIBRARY_PATH": sys.argv[1]}, sys.argv[2:]))
import pynvml
pynvml.nvmlInit()
"""


def load(path, *folders, environment=None):
    return subprocess.run(
        [sys.executable, "-c", CODE, path, *folders],
        capture_output=True,
        text=True,
        env=environment,
        timeout=30,
        check=False,
    )


def test_a_library_outside_the_linkers_folders_is_found_by_its_name_afterwards(
    tmp_path, fake_driver, fake_nvml_library
):
    fake_driver.write()
    environment = fake_driver.environment(tmp_path / "nowhere" / "lib")
    shutil.copy(fake_nvml_library, tmp_path)
    for path, folders in ((f"/nowhere:{tmp_path}", []), ("", ["/nowhere", str(tmp_path)])):
        done = load(path, *folders, environment=environment)
        assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_what_is_no_library_is_passed_over(tmp_path):
    (tmp_path / "libnvidia-ml.so.1").write_text("of another machine")
    done = load("", str(tmp_path))
    assert done.stdout == "False\n"
    assert "NVMLError_LibraryNotFound" in done.stderr
