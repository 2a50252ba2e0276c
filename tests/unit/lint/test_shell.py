# SPDX-License-Identifier: Apache-2.0
"""A whole script, as the command hands it over, what becomes of a status, and which functions wait."""

from pathlib import Path

import pytest

from ci_doctor.lint.lint_rule import Violation
from ci_doctor.lint.shell.check import check_shell
from ci_doctor.lint.shell.checking_commands import StatusUse, use_of
from ci_doctor.lint.shell.shell_program import read_program
from ci_doctor.lint.source_files import CiRole, FileReading, Shell, ShellSource
from ci_doctor.model.outcome import Severity
from tests.support.cases import cases
from tests.support.growth import assert_linear


def reading_of(text: str, shell: Shell = Shell.BASH) -> FileReading:
    return check_shell(ShellSource(file="run.sh", text=text, shell=shell), lambda _: None)


def rules_of(text: str) -> list[str]:
    return [each.rule.id for each in reading_of(text).violations]


def repaired(text: str, violation: Violation) -> str:
    for edit in sorted(violation.edits, key=lambda each: -each.start):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def test_a_page_that_refuses_get_is_reported_but_not_repaired() -> None:
    text = "until curl -s -m 5 localhost:8000/v1/completions; do sleep 1; done\n"

    (violation,) = reading_of(text).violations

    assert violation.rule.id == "shell/curl-without-fail"
    assert violation.edits == ()


@pytest.mark.parametrize(
    "text",
    [
        "mypy src || true\n",
        "python3 -m mypy src || true\n",
        "ruff check . || echo no\n",
        "uv run pylint a; true\n",
    ],
)
def test_a_linter_whose_failure_is_dropped_is_a_warning(text: str) -> None:
    (violation,) = reading_of(f"set +e\n{text}make\n").violations

    assert (violation.rule.id, violation.severity) == ("shell/failure-lost", Severity.WARNING)


def test_a_backslash_at_the_end_hides_nothing() -> None:
    reading = reading_of("pkill -f vllm\nserve \\\n  --port 8000 \\\n")

    assert reading.unreadable == ()
    assert [each.rule.id for each in reading.violations] == ["shell/broad-kill"]


UNTIL = "until curl -sf localhost:8000/health; do sleep 1; done\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("bash <<EOF\n" + UNTIL + "EOF\n", 2),
        ("bash -s -- a <<'EOF'\n" + UNTIL + "EOF\n", 2),
        ("ssh host bash -s <<'EOF'\n" + UNTIL + "EOF\n", 2),
        ("ssh host <<'EOF'\n" + UNTIL + "EOF\n", 2),
        ("docker exec -i c bash <<-EOF\n\t" + UNTIL + "EOF\n", 2),
        ("cat > wait.sh <<'EOF'\n" + UNTIL + "EOF\n", 2),
        ("cat <<'EOF' > wait.sh\n" + UNTIL + "EOF\n", 2),
        ("cat > wait <<'EOF'\n#!/bin/bash\n" + UNTIL + "EOF\n", 3),
        ("tee wait.sh <<'EOF'\n" + UNTIL + "EOF\n", 2),
        (f"bash -c '{UNTIL}'\n", 1),
        (f"docker run --rm img bash -c '\n{UNTIL}'\n", 2),
        (f'docker run --rm img bash -lc "\n{UNTIL}"\n', 2),
        (f'srun -N 2 bash -c "true\n{UNTIL}"\n', 2),
        ("ssh host bash -s <<'A'\nbash <<'B'\n" + UNTIL + "B\nA\n", 3),
    ],
)
def test_a_script_inside_a_script_is_read_with_its_place(text: str, line: int) -> None:
    (violation,) = reading_of(text).violations

    assert violation.rule.id == "shell/curl-without-time-limit"
    assert violation.place.line == line


@pytest.mark.parametrize(
    "text",
    [
        "cat <<'EOF'\n" + UNTIL + "EOF\n",
        "cat > readme.md <<'EOF'\n" + UNTIL + "EOF\n",
        "python3 - <<'EOF'\n" + UNTIL + "EOF\n",
        "bash run.sh <<'EOF'\n" + UNTIL + "EOF\n",
        "cat > wait <<'EOF'\n#!/usr/bin/env python3\n" + UNTIL + "EOF\n",
        f"echo '{UNTIL}'\n",
        f"timeout 600 bash -c '{UNTIL}' || exit 1\n",
    ],
)
def test_what_no_shell_runs_and_what_is_limited_is_left_alone(text: str) -> None:
    assert rules_of(text) == []


def test_an_edit_inside_a_literal_script_changes_the_file_there() -> None:
    text = "é\nssh host bash -s <<'EOF'\n" + UNTIL + "EOF\n"
    (violation,) = reading_of(text).violations

    assert "curl --max-time 60 -sf" in repaired(text, violation)


def test_no_edit_is_offered_where_the_outer_shell_expands() -> None:
    (violation,) = reading_of("bash <<EOF\n" + UNTIL + "EOF\n").violations

    assert violation.edits == ()


def test_places_of_a_program_inside_another_file_are_those_of_the_file() -> None:
    source = ShellSource(
        file="p.yml", text="true\n" + UNTIL, lines=(7, 9), offset=None, embedded="a step"
    )

    (violation,) = check_shell(source, lambda _: None).violations

    assert (violation.place.file, violation.place.line, violation.edits) == ("p.yml", 9, ())


def test_the_last_pipe_of_a_step_hides_its_status() -> None:
    source = ShellSource(file="p.yml", text="pytest | tee log", embedded="a step")

    assert [each.rule.id for each in check_shell(source, lambda _: None).violations] == [
        "shell/status-lost-in-pipe"
    ]


def test_the_words_of_a_bash_error_come_from_bash() -> None:
    (violation,) = reading_of("true\nIMAGE=<NAME>:<TAG>\n").violations

    assert violation.rule.id == "shell/syntax"
    assert violation.place.line == 2
    assert "syntax error" in violation.summary


def test_bash_reads_the_text_and_runs_nothing_of_it(tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    reading_of(f"touch {mark}\n$(touch {mark})\nif true; then\n")

    assert not mark.exists()


def test_a_program_of_another_shell_is_not_judged() -> None:
    reading = reading_of("for f (*.sh) echo $f\n", Shell.OTHER)

    assert reading.violations == ()
    assert len(reading.unreadable) == 1


def test_what_sh_may_lack_is_not_judged() -> None:
    assert reading_of("[[ a == b ]] && x=(1 2)\n", Shell.SH) == FileReading(
        role=CiRole.SCRIPT, violations=(), unreadable=()
    )


def test_expressions_of_a_workflow_are_words() -> None:
    text = "run ${{ inputs.a && 'b' || '' }} \"${{ github.sha }}\"\n" + UNTIL
    source = ShellSource(file="w.yml", text=text, embedded="a step", offset=None)

    reading = check_shell(source, lambda _: None)

    assert reading.unreadable == ()
    assert [each.excerpt for each in reading.violations] == [UNTIL.strip()]


def test_a_binary_is_not_taken_for_clean() -> None:
    reading = reading_of("#!/bin/bash\n\0\0")

    assert [each.reason for each in reading.unreadable] == ["it holds a NUL, so it is no text"]


def test_a_program_that_bash_accepts_and_the_parser_does_not_is_judged_around_the_line() -> None:
    text = "! \n" + UNTIL
    reading = reading_of(text)

    assert [each.rule.id for each in reading.violations] == ["shell/curl-without-time-limit"]
    assert [each.line for each in reading.unreadable] == [1]


VALID = r"""
cat <<EOF > log &
x
EOF
echo "${S:-$((1 << 30))}" ${x%%'}'*} "${x:-"a b"}" "${x#"${x%%[! ]*}"}"
f () { a || (b) }
pid=$(cat x) 2>/dev/null
shopt -s extglob; rm -- !(keep|*.log)
coproc CAT { cat; }; echo hi >&"${CAT[1]}"
select x in a b; do echo "$x"; break; done
case $x in a) b;;& (c|d) e;& *) f;; esac
a=(1 "2 3" [5]=6 $(ls) # it's a comment
  x); declare -A m=([x]=1); m["a b"]+=c; empty=()
diff <(sort a) <(sort b) > >(tee log)
[[ $x =~ ^(a|b)+[0-9]{2,}$ && ! ( -d z ) && $y == *(x|y)* ]]
cat <<A; cat <<'B'
a $(cat <<C
nested
C
)
A
it's
B
cat <<< "$x" | tr a b
time -p { ls; sleep 1; }
! a | b && ! c
for ((i=0; i<3; i++)); do echo $i; done
for ((i=0;i<3;i++)) { echo $i; }
f() ( cd x; ls ) > log 2>&1
f() if a; then b; fi
function g { a; }
((a)&&(b))
$((a); (b))
echo "$(case x in a) b;; esac)" `echo \`date\`` $'a\'b' $[1+2]
exec 3<>/dev/tcp/a/80 {fd}>x; echo >&3
{ (a) }
if (a) then { b; } fi
while a; do { b; } done
echo a;# c
x=$(cat <<EOF
it's "
EOF
)
"""


def test_all_that_bash_accepts_is_read() -> None:
    text = "shopt -s extglob\n" + VALID + UNTIL
    reading = reading_of(text)

    assert reading.unreadable == ()
    assert [
        each.place.line
        for each in reading.violations
        if each.rule.id == "shell/curl-without-time-limit"
    ] == [text.count("\n")]


def test_carriage_returns_hide_nothing_of_the_rest() -> None:
    text = "set -e\n" + UNTIL

    assert rules_of(text.replace("\n", "\r\n")) == ["shell/curl-without-time-limit"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "\t\tif true\t;then\techo a;\tfi",
        "if true; then\n for",
        "echo '" + "a" * 1_000_000,
        "echo " + "a " * 500_000,
        "a && " * 20_000 + "b",
        "(" * 10_000 + "a" + ")" * 10_000,
        "x=" + "$(" * 1_000 + "a" + ")" * 1_000,
        "set -e\n" + "export X=$(foo)\nset +e\nset -e\n" * 500,
        "x /python3.1/site-packages\n" * 500,
        '"' * 10_001,
        "`" * 5_001,
        "cat <<EOF\n" * 2_000,
        "echo \udc80 é 漢\ngrep -c é x",
        "f() { f; }\n" * 1_000 + "f\n",
        ")\n}\nfi\ndone\nesac\n",
    ],
)
def test_no_text_is_too_odd(text: str) -> None:
    reading_of(text)


GROWING = {
    "lines": "set -e\n"
    + "export X=$(foo)\nset +e\nset -e\nfoo | tee x\nvllm serve m &\nsleep 3\nx\n" * 8,
    "a word": "A" * 300,
    "a payload": "x=" + "QUJD" * 100,
    "a quoted payload": "'QUJDRA=='" * 40,
    "one line": "a; " * 40,
    "operators": "a && " * 40,
    "here-documents": "cat <<EOF\nx $y\nEOF\n" * 20,
    "documents of one line": "cat <<A; " * 10,
    "no end of a document": "cat <<A\nx\n" * 20,
    "substitutions": "$(" * 20,
    "two parentheses": "a $((\n" * 10,
    "conditions": "if a; then\n" * 20,
    "checks": "pytest a || rc=$?\nrc=$?\nif [ $rc -ne 0 ]; then exit $rc; fi\n" * 8,
    "functions": "f() { a; pytest b; }\nf || x\n" * 8,
    "background": "pytest a &\np=$!\nwait $p\n" * 8,
    "wrappers": "sudo " * 40,
}


@pytest.mark.nightly
@pytest.mark.parametrize("piece", GROWING.values(), ids=GROWING.keys())
def test_the_work_grows_with_the_text_and_not_with_its_square(piece: str) -> None:
    assert_linear(lambda count: reading_of(piece * count + "\n"), 25)


# What happens to the status of a command named `target`.


def use_of_target(text: str, *, errexit: bool = False, pipefail: bool = False) -> StatusUse:
    source = ShellSource(file="run.sh", text=text, errexit=errexit, pipefail=pipefail)
    program = read_program(source, lambda _: None)
    (target,) = (node for node in program.commands if program.words(node).name == "target")
    return use_of(program, target)


USES = {
    StatusUse.READ: [
        "target || exit 1\na",
        "target && a\nb",
        "if target; then a; fi\nb",
        "if ! target; then a; fi\nb",
        "while ! target; do a; done\nb",
        "until target > /dev/null; do a; done\nb",
        "target\nrc=$?\na",
        "target\nif [ $? -ne 0 ]; then exit 1; fi\na",
        "x=$(target)\nrc=$?\na",
        "target | tee log\nrc=${PIPESTATUS[0]}\na",
        "set -o pipefail\ntarget | tee log || exit 1\na",
        "target",
        "( a; target ) || exit 1\nb",
        "if a; then\n  target\nfi",
        "target\nexit",
        # A pipe belongs to the last command of a list, and a here-document hides nothing behind it.
        "target > x && a 2>&1 | tee y\nb",
        "target <<EOF || exit 1\nx\nEOF\na",
    ],
    StatusUse.LOST_IN_PIPE: [
        "set -e\ntarget | tee log\na",
        "a > x && target 2>&1 | tee y\nb",
        "target <<EOF | tee log\nx\nEOF\na",
    ],
    StatusUse.IGNORED: [
        "target\na",
        "target &\na",
        "set -e\nset +e\ntarget\na",
        "( set -e )\ntarget\na",
        "a && target\nb",
        "a || target\nb",
        "target; a",
        "{ target; a; } || exit 1\nb",
        "if target; a; then b; fi\nc",
        "echo $(target)\na",
        "set -e\necho $(target; a)\nb",
        "set -e\nx=$(target; a)\nb",
        "set -e\n! target\na",
        "set -e\nif { target; a; }; then b; fi\nc",
        "f() {\n  target\n  a\n}\nf\nb",
        "set -e\nf() {\n  target\n  a\n}\nif f; then b; fi\nc",
        "set -e\nf() {\n  target\n  a\n}\nf || true\nc",
        "for i in 1 2; do\n  target\n  a\ndone\nb",
        "case $x in\n  a) target;;\nesac\nb",
    ],
    StatusUse.ENDS: [
        "set -e\ntarget\na",
        "#!/bin/bash -ex\ntarget\na",
        "set -euo pipefail\ntarget\na",
        "set -eou pipefail\ntarget | tee log\na",
        "set -o errexit\ntarget\na",
        "set -e\na && target\nb",
        "set -e\n( target; a )\nb",
        "set -e\nx=$(target)\na",
        "set -e\nshopt -s inherit_errexit\nx=$(target; a)\nb",
        "f() {\n  set -e\n  target\n  a\n}\nf\nb",
        "set -e\nf() {\n  target\n  a\n}\nf\nb",
        "f() {\n  target\n  a\n}\nset -e\nf\nb",
        "if a; then\n  set -e\nfi\ntarget\nb",
    ],
    StatusUse.UNKNOWN: [
        "f() {\n  target\n  a\n}",
        "f() {\n  target\n  a\n}\nset -e\nf\nset +e\nf\nb",
        "trap 'exit 1' ERR\ntarget\na",
    ],
    StatusUse.RETURNED: [
        "f() {\n  target\n}\nf\na",
        "f() {\n  a\n  if b; then target; fi\n}\nf\na",
        "f() ( target )\nf\na",
    ],
}


@pytest.mark.parametrize(
    ("use", "text"), [(use, text) for use, texts in USES.items() for text in texts]
)
def test_what_happens_to_a_status(use: StatusUse, text: str) -> None:
    assert use_of_target(text) is use


def test_the_caller_of_a_program_may_have_set_options() -> None:
    assert use_of_target("target\na", errexit=True) is StatusUse.ENDS
    assert use_of_target("target | tee log\na", pipefail=True, errexit=True) is StatusUse.ENDS


# Which functions return the failure of a wait, in the file and through what it sources.

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


@cases(
    "text",
    {
        "a function that swallows the failure": WAIT
        + "start() {\n  wait_up || echo slow\n}\nstart\npytest\n",
        "the last definition of a name": WAIT + "wait_up() {\n  true\n}\nwait_up\npytest\n",
        "functions that call each other": "f() {\n  g\n}\ng() {\n  f\n}\nf\npytest\n",
        "a wait for an end": WAIT + "cleanup() {\n  wait_up\n  rm -f x\n}\ncleanup\ntrue\n",
        "a failure that set +e allows": WAIT + "set +e; wait_up; set -e\npytest\n",
        "a function that uses the service itself": WAIT
        + "run_config() {\n  serve &\n  if ! wait_up; then return 1; fi\n  bench $1\n}\n"
        + "run_config a\nrun_config b\n",
        "the wait of a cleanup at the end": WAIT.replace("wait_up", "cleanup_server")
        + "run_config() {\n  bench\n  cleanup_server\n}\nrun_config a\n",
    },
)
def test_a_wait_whose_failure_is_read_or_may_be_is_not_reported(text: str) -> None:
    assert unchecked(text) == []


def test_files_that_source_each_other_end() -> None:
    text = "source ci/a.sh\nwait_up\npytest\n"

    assert unchecked(text, ci__a="source ci/b.sh\n", ci__b="source ci/a.sh\n" + WAIT) == [2]


def test_a_path_out_of_the_repository_is_not_read() -> None:
    asked: list[str] = []

    def read(path: str) -> None:
        asked.append(path)

    check_shell(ShellSource(file="run.sh", text='source "$(dirname "$0")/../../etc/x.sh"\n'), read)

    assert asked == []


def test_a_function_that_only_starts_passes_the_failure_on() -> None:
    text = WAIT + "both() {\n  serve &\n  wait_up || return 1\n  echo up\n}\n"

    assert unchecked(text + "both\nbench\n") == [13]
