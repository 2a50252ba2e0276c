# SPDX-License-Identifier: Apache-2.0
"""An experiment and a launch without the command line: .venv/bin/python examples/library/run.py."""

import os
import sys
from pathlib import Path

from ci_doctor.config.loading import load_config
from ci_doctor.correctness.planning import ExperimentRequest, parse_arm_variables, read_settings
from ci_doctor.correctness.run import run as run_experiment
from ci_doctor.model.outcome import Outcome, Verdict
from ci_doctor.services.launch import make_plan
from ci_doctor.services.launch import run as run_launch
from ci_doctor.services.launch_report import LaunchRequest
from ci_doctor.services.spec import ServiceSpec
from ci_doctor.system.secrets.redaction import Redactor

CLIENT = "import os, urllib.request as u; print(u.urlopen(os.environ['CI_DOCTOR_SERVICES_WEB_URL']).status)"


def experiment(config_file: Path, directory: Path) -> Outcome:
    """Compares the two arms of a ci-doctor.toml."""
    config = load_config(config_file, Path.cwd())
    settings = read_settings(config, os.environ, {}, parse_arm_variables(()))
    return run_experiment(ExperimentRequest(settings=settings, config=config), directory=directory)


def launch(directory: Path) -> Outcome:
    """Runs a client against a web server, which it stops in the end."""
    web = ServiceSpec(command=[sys.executable, "-m", "http.server", "{port}"], ready="/")
    request = LaunchRequest(
        specs={"web": web},
        names=("web",),
        client=(sys.executable, "-c", CLIENT),
        environment=dict(os.environ),
        directory=directory,
    )
    return run_launch(make_plan(request), redactor=Redactor.from_environment(os.environ))


def main() -> int:
    """Prints what each concludes; 1 if one does not pass."""
    # The services of the example are `python server.py`: this interpreter has what they need.
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    reports = Path("ci-doctor-report")
    outcomes = (
        experiment(Path("examples/tiny-llm/ci-doctor.toml"), reports / "experiment"),
        launch(reports / "launch"),
    )
    for outcome in outcomes:
        print(f"{outcome.verdict}: {outcome.summary}")
    return int(any(outcome.verdict is not Verdict.PASS for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
