// Drives chromium by the DevTools protocol over a pipe: messages of JSON, each with a null at its end.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FLAGS = [
  "--headless=new", "--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--remote-debugging-pipe",
  "--no-first-run", "--disable-extensions", "--hide-scrollbars", "about:blank",
];

/** A browser that was started. `close` ends it. */
export class Chromium {
  #process;
  #profile = mkdtempSync(join(tmpdir(), "arrow-device-browser-"));
  #last = 0;
  #calls = new Map();
  #listeners = [];
  #ended;

  constructor(program = process.env.CHROMIUM ?? "chromium") {
    const flags = [`--user-data-dir=${this.#profile}`, ...FLAGS];
    this.#process = spawn(program, flags, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.#ended = new Promise((resolve) => {
      const over = (reason) => {
        for (const { reject } of this.#calls.values()) reject(new Error(`${program}: ${reason}`));
        this.#calls.clear();
        resolve();
      };
      this.#process.on("error", (error) => over(error.message));
      this.#process.on("exit", (code) => over(`it ended with ${code}`));
    });
    let text = "";
    this.#process.stdio[4].setEncoding("utf8").on("data", (chunk) => {
      const messages = (text + chunk).split("\0");
      text = messages.pop();
      for (const message of messages) this.#take(JSON.parse(message));
    });
    this.#process.stdio[3].on("error", () => {});
  }

  #take({ id, result, error, method, params, sessionId }) {
    if (id === undefined) {
      for (const listener of this.#listeners) listener(method, params, sessionId);
      return;
    }
    const { resolve, reject } = this.#calls.get(id) ?? {};
    this.#calls.delete(id);
    if (error) reject?.(new Error(error.message));
    else resolve?.(result);
  }

  call(method, params = {}, sessionId = undefined) {
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      this.#process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  /** Opens a page. `log` is told what the page prints. */
  async open(url, log = () => {}) {
    const { targetId } = await this.call("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.call("Target.attachToTarget", { targetId, flatten: true });
    const page = new PageOf(this, sessionId);
    this.#listeners.push((method, params, session) => {
      if (session !== sessionId) return;
      if (method === "Runtime.consoleAPICalled") {
        log(params.args.map((value) => value.value ?? value.description ?? "").join(" "));
      }
      if (method === "Runtime.exceptionThrown") log(`thrown: ${params.exceptionDetails.exception?.description}`);
      if (method === "Page.loadEventFired") page.loaded();
    });
    await page.call("Runtime.enable");
    await page.call("Page.enable");
    const loaded = new Promise((resolve) => (page.loaded = resolve));
    await page.call("Page.navigate", { url });
    await loaded;
    return page;
  }

  async close() {
    this.#process.kill();
    await this.#ended;
    // Processes that Chromium started may still write there for a moment.
    for (let tries = 0; ; tries++) {
      try {
        rmSync(this.#profile, { recursive: true, force: true });
        return;
      } catch (error) {
        if (tries === 100) throw error;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }
}

class PageOf {
  constructor(browser, session) {
    this.browser = browser;
    this.session = session;
    this.loaded = () => {};
  }

  call(method, params) {
    return this.browser.call(method, params, this.session);
  }

  /** The value of an expression, awaited. */
  async evaluate(expression) {
    const answer = await this.call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (answer.exceptionDetails) {
      throw new Error(answer.exceptionDetails.exception?.description ?? answer.exceptionDetails.text);
    }
    return answer.result.value;
  }

  /** A picture of the whole page, as PNG. */
  async picture({ width, height, dark = false }) {
    const size = { width, height, deviceScaleFactor: 1, mobile: width < 500 };
    await this.call("Emulation.setDeviceMetricsOverride", size);
    await this.call("Emulation.setEmulatedMedia", {
      features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }],
    });
    await new Promise((resolve) => setTimeout(resolve, 300));
    const { data } = await this.call("Page.captureScreenshot", { format: "png", captureBeyondViewport: true });
    return Buffer.from(data, "base64");
  }
}
