// Serves a folder to a browser on this machine, this one unless told, and other folders under names of their own.

import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const TYPES = {
  ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css",
  ".wasm": "application/wasm", ".svg": "image/svg+xml", ".json": "application/json",
};

/** Starts a server. `folders` maps first parts of paths to folders, and `texts` paths to texts. */
export function serve({ port = 0, root = fileURLToPath(new URL(".", import.meta.url)), folders = {}, texts = {} } = {}) {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
    if (path in texts) {
      response.writeHead(200, { "content-type": TYPES[extname(path)] ?? "text/plain" });
      response.end(texts[path]);
      return;
    }
    const [, first, ...rest] = path.split("/");
    let file = first in folders ? join(folders[first], ...rest) : join(root, path);
    try {
      if (statSync(file).isDirectory()) file = join(file, "index.html");
      const { size } = statSync(file);
      const type = TYPES[extname(file)] ?? "application/octet-stream";
      response.writeHead(200, { "content-type": type, "content-length": size, "cache-control": "no-store" });
      createReadStream(file).pipe(response);
    } catch {
      response.writeHead(404).end();
    }
  });
  return new Promise((resolve) => {
    server.listen(port, "127.0.0.1", () => resolve({ server, url: `http://localhost:${server.address().port}` }));
  });
}
