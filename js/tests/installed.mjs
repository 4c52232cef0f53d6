// Runs the program of the README in headless Chromium, in a folder where nothing was put but what `npm install` puts
// there: the page and the program stand in the installed package's README, and so does what the program prints.
//
// node tests/installed.mjs FOLDER

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { serve } from "../serve.mjs";
import { Chromium } from "./chromium.mjs";

const DEADLINE_MS = 60_000;

const folder = process.argv[2];
const readme = readFileSync(join(folder, "node_modules", "arrow-device", "README.md"), "utf8");
const block = (language) => new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, "m").exec(readme)[1];
writeFileSync(join(folder, "index.html"), block("html"));
writeFileSync(join(folder, "program.js"), block("js"));
const expected = block("text").trimEnd();

const { server, url } = await serve({ root: folder });
const browser = new Chromium();
let printed = "";
try {
  const lines = [];
  await browser.open(`${url}/index.html`, (line) => lines.push(line));
  const end = Date.now() + DEADLINE_MS;
  while ((printed = lines.join("\n")).length < expected.length && Date.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
} finally {
  await browser.close();
  server.close();
}
if (printed !== expected) {
  console.log(`the program prints\n${printed}\nand not\n${expected}`);
  process.exit(1);
}
console.log("test result: ok. 1 passed; 0 failed; 0 ignored");
