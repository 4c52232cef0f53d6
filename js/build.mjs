// Builds the WebAssembly module, and copies it and the licence beside index.js.

import { execFileSync } from "node:child_process";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "..");
const target = "wasm32-unknown-unknown";
const folder = process.env.CARGO_TARGET_DIR ?? join(root, "target");
const words = ["build", "--locked", "--package=js-module", `--target=${target}`, "--profile=js"];
execFileSync("cargo", words, { cwd: root, stdio: "inherit" });
copyFileSync(join(folder, target, "js", "js_module.wasm"), join(here, "arrow_device.wasm"));
copyFileSync(join(root, "LICENSE"), join(here, "LICENSE"));
