// Runs all tests, and counts them as a test program of Rust does. Needs chromium, node and npm, and what `npm ci` and
// `npm run build` put into this folder.
//
// node tests/run.mjs [PART OF A NAME]

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { serve } from "../serve.mjs";
import { Chromium } from "./chromium.mjs";

const here = fileURLToPath(new URL("..", import.meta.url));
const part = process.argv[2] ?? "";
const scratch = mkdtempSync(join(tmpdir(), "arrow-device-js-"));

function output(program, words) {
  try {
    return execFileSync(program, words, { cwd: here, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    throw new Error(`${program} ${words.join(" ")}: ${error.message}\n${error.stdout}\n${error.stderr}`);
  }
}

/** The modules that exchange an array: Rust files of their own, which no other part of the project knows. */
function compile(name) {
  const flags = ["-O", "-C", "strip=symbols", "-C", "link-arg=--export-table", "-C", "link-arg=--growable-table"];
  const words = ["--edition", "2024", "--target", "wasm32-unknown-unknown", "--crate-type", "cdylib", ...flags];
  output("rustc", [...words, "-o", join(scratch, `${name}.wasm`), join("tests", "modules", `${name}.rs`)]);
}

/** The blocks of a language in the README. */
function blocks(language) {
  const readme = readFileSync(join(here, "README.md"), "utf8");
  return [...readme.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, "gm"))].map(([, block]) => block);
}

const golden = process.env.ARROW_DEVICE_GOLDEN ?? join(here, "..", "..", "shared", "data", "golden");
let streams = [];
try {
  streams = readdirSync(golden).filter((name) => name.endsWith(".stream"));
} catch {
  // The test says that it is skipped.
}

/** A test that waits for something that never comes has failed. */
const DEADLINE_MS = 60_000;
async function inTime(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("the test does not end")), DEADLINE_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

const results = { passed: 0, failed: 0, skipped: 0 };
async function test(name, body) {
  if (!name.includes(part)) return;
  let [word, lines] = ["ok", ""];
  try {
    const skipped = await inTime(body());
    if (skipped) lines = skipped;
    results[skipped ? "skipped" : "passed"] += 1;
    if (skipped) word = "skipped";
  } catch (error) {
    [word, lines] = ["FAILED", error.stack ?? String(error)];
    results.failed += 1;
  }
  console.log(`test ${name} ... ${word}`);
  for (const line of lines.split("\n").filter(Boolean)) console.log(`    ${line}`);
}

for (const name of ["producer", "consumer"]) compile(name);
const page = readFileSync(join(here, "tests", "index.html"), "utf8");
const texts = {
  "/golden.json": JSON.stringify(streams),
  // The package as it is published takes the place of the folder.
  "/packed.html": page.replace("/index.js", "/packed/package/index.js"),
};
const { server, url } = await serve({ folders: { golden, modules: scratch, packed: scratch }, texts });
const browser = new Chromium();
try {
  const logged = [];
  const tests = await browser.open(`${url}/tests/index.html`, (line) => logged.push(line));
  const names = await tests.evaluate(`import("/tests/page.js").then(({ names }) => names)`);
  console.log(`\nrunning ${names.length + 5} tests`);
  for (const name of names) {
    await test(name, async () => {
      logged.length = 0;
      const { error, skipped } = await tests.evaluate(`import("/tests/page.js").then(({ run }) => run(${JSON.stringify(name)}))`);
      if (error) throw new Error([error, ...logged].join("\n"));
      return skipped;
    });
  }

  await test("every type of the golden streams comes back as it went, as pyarrow sees it", async () => {
    const python = process.env.ARROW_DEVICE_PYTHON ?? join(here, "..", "target", "peers", "venv", "bin", "python");
    if (streams.length === 0) return "skipped: ARROW_DEVICE_GOLDEN names no folder with golden streams";
    if (!existsSync(python)) return `skipped: ${python} is not there; cargo xtask test --setup installs pyarrow`;
    const arrived = await tests.evaluate(`import("/tests/page.js").then(({ arrivals }) => arrivals())`);
    for (const [name, bytes] of Object.entries(arrived)) writeFileSync(join(scratch, name), Buffer.from(bytes, "base64"));
    const compared = output(python, [join("tests", "compare.py"), golden, scratch, ...Object.keys(arrived)]);
    if (compared.trim() !== `${streams.length} equal`) throw new Error(compared);
  });

  await test("the package has what it needs, and the README's program prints what the README says", async () => {
    output("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", scratch]);
    const [archive] = readdirSync(scratch).filter((name) => name.endsWith(".tgz"));
    output("tar", ["--extract", "--gzip", "--directory", scratch, "--file", join(scratch, archive)]);
    const files = readdirSync(join(scratch, "package")).sort();
    const expected = ["LICENSE", "README.md", "arrow_device.wasm", "exchange.js", "incoming.js", "index.d.ts", "index.js", "package.json", "page.js", "structs.js"];
    if (files.join() !== expected.join()) throw new Error(`the package has ${files.join()}`);
    const [[program], [printed]] = [blocks("js"), blocks("text")];
    const lines = [];
    const packed = await browser.open(`${url}/packed.html`, (line) => lines.push(line));
    texts["/program.js"] = program;
    await packed.evaluate(`import("/program.js").then(() => true)`);
    if (lines.join("\n") !== printed.trimEnd()) throw new Error(`the program prints\n${lines.join("\n")}`);
  });

  await test("the types are those of the README's program and of a program that uses everything", () => {
    writeFileSync(join(here, "tests", "types", "readme", "readme.ts"), `${blocks("js")[0]}\nexport {};\n`);
    for (const project of ["tests/types", "tests/types/readme"]) {
      output(join(here, "node_modules", ".bin", "tsc"), ["--project", project]);
    }
  });

  await test("the file of the demonstration is what its script makes", () => void output("node", ["demo/make.mjs", "--check"]));

  await test("the demonstration filters on the GPU what the host filters, and shows it", async () => {
    const demo = await browser.open(`${url}/demo/`, (line) => logged.push(line));
    const state = `document.querySelector("main").dataset.state`;
    for (let turn = 0; (await demo.evaluate(state)) !== "done"; turn++) {
      if (turn > 200) throw new Error(`the page is ${await demo.evaluate(state)}\n${logged.join("\n")}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const shown = JSON.parse(await demo.evaluate(`JSON.stringify(window.shown)`));
    if (shown.gpu !== shown.host || !(shown.gpu > 0)) throw new Error(`${shown.gpu} rows on the GPU, ${shown.host} on the host`);
    const rows = await demo.evaluate(`document.querySelectorAll("tbody tr").length`);
    const dots = await demo.evaluate(`document.querySelectorAll("svg circle").length`);
    if (rows === 0 || dots === 0) throw new Error(`${rows} rows and ${dots} dots are shown`);
    const folder = process.env.PICTURES;
    for (const [name, size] of Object.entries({ wide: { width: 1100, height: 900 }, phone: { width: 390, height: 844 } })) {
      for (const dark of [false, true]) {
        const picture = await demo.picture({ ...size, dark });
        if (folder) writeFileSync(join(folder, `${name}-${dark ? "dark" : "light"}.png`), picture);
        const width = await demo.evaluate(`document.documentElement.scrollWidth`);
        if (width > size.width) throw new Error(`${name}: the page is ${width} pixels wide`);
      }
    }
  });
} finally {
  await browser.close();
  server.close();
  rmSync(scratch, { recursive: true, force: true });
}
const { passed, failed, skipped } = results;
console.log(`\ntest result: ${failed === 0 ? "ok" : "FAILED"}. ${passed} passed; ${failed} failed; ${skipped} ignored`);
process.exit(failed === 0 ? 0 : 1);
