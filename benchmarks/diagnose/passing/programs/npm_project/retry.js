// SPDX-License-Identifier: Apache-2.0
// Tries a port that nobody listens on, warns each time, and ends with 0.
const net = require("net");
const unused = "a linter warns about this";

function attempt(number) {
  return new Promise((resolve) => {
    const socket = net.connect(1, "127.0.0.1");
    socket.on("error", (error) => {
      console.error(`attempt ${number} failed:`, error);
      resolve();
    });
  });
}

async function main() {
  for (let number = 1; number <= 3; number++) {
    await attempt(number);
  }
  process.emitWarning("retry() is deprecated", "DeprecationWarning", "DEP0000");
  try {
    JSON.parse("{");
  } catch (error) {
    console.log(error.stack);
  }
  try { undefined.missing; } catch (error) {}
  console.log("0 failing, 3 errors ignored");
}

main();
