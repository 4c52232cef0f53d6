// Runs the checks of a WebAssembly module, each in an instance of its own, and counts them as a test program does.
//
// node testing/wasm/run.mjs MODULE

import { readFileSync } from "node:fs";

const module = new WebAssembly.Module(readFileSync(process.argv[2]));

function instance() {
  const lines = [];
  const print_line = (start, bytes) => {
    const memory = it.exports.memory.buffer;
    lines.push(new TextDecoder().decode(new Uint8Array(memory, start >>> 0, bytes >>> 0)));
  };
  const it = new WebAssembly.Instance(module, { env: { print_line } });
  return { functions: it.exports, lines };
}

const count = instance().functions.check_count();
console.log(`\nrunning ${count} tests`);
let failed = 0;
for (let index = 0; index < count; index++) {
  const { functions, lines } = instance();
  functions.print_name(index);
  const name = lines.pop();
  let passes = false;
  try {
    passes = Boolean(functions.run_check(index));
  } catch (trap) {
    lines.push(trap.stack);
  }
  console.log(`test ${name} ... ${passes ? "ok" : "FAILED"}`);
  for (const line of lines) console.log(`    ${line}`);
  failed += passes ? 0 : 1;
}
const outcome = failed === 0 ? "ok" : "FAILED";
console.log(`\ntest result: ${outcome}. ${count - failed} passed; ${failed} failed; 0 ignored`);
process.exit(failed === 0 ? 0 : 1);
