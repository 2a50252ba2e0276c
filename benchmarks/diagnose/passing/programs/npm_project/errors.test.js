// SPDX-License-Identifier: Apache-2.0
// Passing tests whose subjects fail, for runners with describe and it.
const assert = require("assert");

function load(name) {
  throw new TypeError(`Cannot find module '${name}'`);
}

describe("errors", () => {
  it("throws when a module is missing", () => {
    assert.throws(() => load("left-pad"), /Cannot find module/);
  });
  it("logs the stack of a rejected promise", async () => {
    await Promise.reject(new Error("ECONNREFUSED 127.0.0.1:5432")).catch((error) => {
      console.error(error.stack);
    });
  });
  it("prints what a failed build prints", () => {
    console.log("npm ERR! code ELIFECYCLE");
    console.warn("Error: Process completed with exit code 1.");
  });
  it.skip("fails on Windows: AssertionError [ERR_ASSERTION]", () => {
    assert.fail();
  });
  it("reports 1 failing", () => {
    console.log("  1 failing");
    assert.strictEqual(1, 1);
  });
});
