# SPDX-License-Identifier: Apache-2.0
ExUnit.start(trace: true)

defmodule ErrorsTest do
  use ExUnit.Case
  require Logger

  test "a task that crashes is logged" do
    Process.flag(:trap_exit, true)
    task = Task.async(fn -> raise "connection refused" end)
    assert_receive {:EXIT, _, _}
    Logger.error("task #{inspect(task.ref)} failed, ignored")
    unused = 1
  end

  test "error: ArgumentError is raised" do
    assert_raise ArgumentError, fn -> String.to_integer("x") end
  end

  @tag :skip
  test "fails without a GPU" do
    flunk("never")
  end
end
