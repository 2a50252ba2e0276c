# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a pod of agent-stack-k8s: a checkout container, then a command container, with one workspace.

Copied from https://buildkite.com/docs/agent/v3/self-hosted/agent-stack-k8s/migrate-from-elastic-ci-stack-for-aws/hook-execution-differences
and github.com/buildkite/agent-stack-k8s (internal/controller/scheduler/scheduler.go, `Build` and `ParseJob`):

- the checkout container runs the hooks up to post-checkout, the command container those of the command phase
  (BUILDKITE_BOOTSTRAP_PHASES); hooks called `environment` run in both;
- variables that a hook exports in one container do not reach the other; files of the workspace do;
- the command container has the image's own programs and variables, and `buildkite-agent` from the workspace;
- the entry of the kubernetes plugin is for the stack alone: the containers do not see it;
- a container without a command of its own runs the command of the step.

The agent's container, sidecars and the hooks of the checkout's plugins are left out.
"""

from dataclasses import dataclass

from tests.support.bootstrap import Job


class CheckoutContainer(Job):
    """The phases `plugin,checkout`."""

    def _run_phases(self) -> int:
        return self._prepare() or self._hooks("post-checkout")


class CommandContainer(Job):
    """The phases `plugin,command`: those of any job whose checkout is there."""


@dataclass
class Pod:
    """Both containers, whose `checkout` is one directory of the workspace."""

    checkout: CheckoutContainer
    command: CommandContainer

    def run(self) -> int:
        assert self.checkout.checkout == self.command.checkout
        assert "kubernetes" not in self.command.environment.get("BUILDKITE_PLUGINS", "")
        return self.checkout.run() or self.command.run()
