# SPDX-License-Identifier: Apache-2.0
"""Which functions return the failure of a wait, in the file and through what it sources."""

import pytest

from ci_doctor.lint.shell.check import check_shell
from ci_doctor.lint.shell.shell_source import ShellSource

WAIT = """wait_up() {
  for i in $(seq 60); do
    curl -sf -m 5 localhost:8000/health && return 0
    sleep 1
  done
  return 1
}
"""


def unchecked(text: str, **files: str) -> list[int]:
    named = {name.replace("__", "/") + ".sh": content for name, content in files.items()}
    reading = check_shell(ShellSource(file="ci/run.sh", text=text), named.get)
    return [
        each.place.line for each in reading.violations if each.rule.id == "shell/unchecked-wait"
    ]


@pytest.mark.parametrize(
    "spelling",
    [
        'source "$(dirname "$0")/lib.sh"',
        '. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"',
        'source "${BASH_SOURCE[0]%/*}/lib.sh"',
        'source "${BASH_SOURCE%/*}"/lib.sh',
        'SCRIPT_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\n. "$SCRIPT_DIR/lib.sh"',
        'HERE=$(dirname "$(realpath "$0")")\nsource $HERE/lib.sh',
        'D="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)"\nsource "${D}/lib.sh"',
        'ROOT="$(cd "$(dirname "$0")/.." && pwd)"\nsource "${ROOT}/ci/lib.sh"',
        "source ci/lib.sh",
        "source ./lib.sh",
        "source /workspace/ci/lib.sh",
        'source "$GITHUB_WORKSPACE/ci/lib.sh"',
        'source "$(dirname "$0")/../ci/lib.sh" || exit 1',
    ],
)
def test_a_function_of_a_sourced_file_is_known(spelling: str) -> None:
    line = spelling.count("\n") + 2

    assert unchecked(f"{spelling}\nwait_up\npytest tests\n", ci__lib=WAIT) == [line]


def test_the_report_names_the_return_in_the_other_file() -> None:
    source = ShellSource(file="ci/run.sh", text="source ci/lib.sh\nwait_up\npytest\n")

    reading = check_shell(source, {"ci/lib.sh": WAIT}.get)

    (violation,) = (v for v in reading.violations if v.rule.id == "shell/unchecked-wait")
    assert [(each.file, each.line) for each in violation.related] == [("ci/lib.sh", 6)]


def test_a_function_that_exits_is_safe() -> None:
    text = "source ci/lib.sh\nwait_up\npytest tests\n"

    assert unchecked(text, ci__lib=WAIT.replace("return 1", "exit 1")) == []


def test_errexit_of_a_sourced_file_holds_for_its_reader() -> None:
    text = "source ci/lib.sh\nwait_up\npytest tests\n"

    assert unchecked(text, ci__lib="set -e\n" + WAIT) == []


def test_a_failure_is_followed_through_functions_and_files() -> None:
    lib = "source ci/wait.sh\nstart() {\n  vllm serve m &\n  wait_up || return 1\n}\n"

    assert unchecked("source ci/lib.sh\nstart\npytest\n", ci__lib=lib, ci__wait=WAIT) == [2]


def test_a_function_that_swallows_the_failure_is_safe() -> None:
    text = WAIT + "start() {\n  wait_up || echo slow\n}\nstart\npytest\n"

    assert unchecked(text) == []


def test_the_last_definition_of_a_name_holds() -> None:
    assert unchecked(WAIT + "wait_up() {\n  true\n}\nwait_up\npytest\n") == []


def test_files_that_source_each_other_end() -> None:
    text = "source ci/a.sh\nwait_up\npytest\n"

    assert unchecked(text, ci__a="source ci/b.sh\n", ci__b="source ci/a.sh\n" + WAIT) == [2]


def test_functions_that_call_each_other_end() -> None:
    assert unchecked("f() {\n  g\n}\ng() {\n  f\n}\nf\npytest\n") == []


def test_a_path_out_of_the_repository_is_not_read() -> None:
    asked: list[str] = []

    def read(path: str) -> None:
        asked.append(path)

    check_shell(ShellSource(file="run.sh", text='source "$(dirname "$0")/../../etc/x.sh"\n'), read)

    assert asked == []


def test_a_wait_for_an_end_may_fail() -> None:
    assert unchecked(WAIT + "cleanup() {\n  wait_up\n  rm -f x\n}\ncleanup\ntrue\n") == []


def test_a_failure_that_set_plus_e_allows_is_on_purpose() -> None:
    assert unchecked(WAIT + "set +e; wait_up; set -e\npytest\n") == []


def test_a_function_that_uses_the_service_itself_has_read_the_failure() -> None:
    text = WAIT + "run_config() {\n  serve &\n  if ! wait_up; then return 1; fi\n  bench $1\n}\n"

    assert unchecked(text + "run_config a\nrun_config b\n") == []


def test_a_function_that_only_starts_passes_the_failure_on() -> None:
    text = WAIT + "both() {\n  serve &\n  wait_up || return 1\n  echo up\n}\n"

    assert unchecked(text + "both\nbench\n") == [13]


def test_the_wait_of_a_cleanup_at_the_end_is_no_readiness() -> None:
    cleanup = WAIT.replace("wait_up", "cleanup_server")

    assert unchecked(cleanup + "run_config() {\n  bench\n  cleanup_server\n}\nrun_config a\n") == []
