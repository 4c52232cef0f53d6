// The demonstration: an Arrow file to the GPU, a filter there, and the result back.

import { tableFromIPC } from "apache-arrow";
import { open } from "arrow-device";

const GROUP = 64;
// Each thread looks at one star. One that is kept takes the next free row of the result: the order of rows is the order
// in which threads get there, so the rows carry their numbers.
const FILTER = `
  struct Wish { rows: u32, limit: f32 }
  @group(0) @binding(0) var<uniform> wish: Wish;
  @group(0) @binding(1) var<storage, read> known: array<u32>;      // the bitmap of distances that are not null
  @group(0) @binding(2) var<storage, read> distance: array<f32>;
  @group(0) @binding(3) var<storage, read> color: array<f32>;
  @group(0) @binding(4) var<storage, read> magnitude: array<f32>;
  @group(0) @binding(5) var<storage, read_write> count: atomic<u32>;
  @group(0) @binding(6) var<storage, read_write> result: array<u32>;  // four columns, one behind the other

  @compute @workgroup_size(${GROUP})
  fn main(@builtin(global_invocation_id) id: vec3u) {
    let row = id.x;
    if (row >= wish.rows) { return; }
    let is_known = (known[row / 32] >> (row % 32)) & 1;
    if (is_known == 0 || distance[row] > wish.limit) { return; }
    let place = atomicAdd(&count, 1);
    result[place] = row;
    result[wish.rows + place] = bitcast<u32>(distance[row]);
    result[2 * wish.rows + place] = bitcast<u32>(color[row]);
    result[3 * wish.rows + place] = bitcast<u32>(magnitude[row]);
  }`;
/** The columns of the result, with their format strings: uint32 and float32. */
const COLUMNS = [["row", "I"], ["distance", "f"], ["color", "f"], ["magnitude", "f"]];

const main = document.querySelector("main");
const show = (id, text) => (document.getElementById(id).textContent = text);
const limit = document.getElementById("limit");

/** The filter of one batch of the GPU. */
class Filter {
  constructor(device, batch) {
    this.device = device;
    this.batch = batch;
    const { gpu } = device;
    const { STORAGE, COPY_SRC, COPY_DST, UNIFORM } = GPUBufferUsage;
    this.wish = gpu.createBuffer({ size: 8, usage: UNIFORM | COPY_DST });
    this.count = gpu.createBuffer({ size: 4, usage: STORAGE | COPY_SRC | COPY_DST });
    this.result = gpu.createBuffer({ size: 4 * COLUMNS.length * batch.length, usage: STORAGE | COPY_SRC });
    const module = gpu.createShaderModule({ code: FILTER });
    this.pipeline = gpu.createComputePipeline({ layout: "auto", compute: { module } });
    const [known, distance] = batch.column("distance").buffers;
    const bindings = [
      { buffer: this.wish }, known, distance, batch.column("color").buffers[1], batch.column("magnitude").buffers[1],
      { buffer: this.count }, { buffer: this.result },
    ];
    const entries = bindings.map((resource, binding) => ({ binding, resource }));
    this.group = gpu.createBindGroup({ layout: this.pipeline.getBindGroupLayout(0), entries });
  }

  /** The stars that are near enough, as a table on the host. */
  async run(most) {
    const { gpu } = this.device;
    const rows = this.batch.length;
    const wish = new DataView(new ArrayBuffer(8));
    wish.setUint32(0, rows, true);
    wish.setFloat32(4, most, true);
    gpu.queue.writeBuffer(this.wish, 0, wish);
    gpu.queue.writeBuffer(this.count, 0, new Uint32Array(1));
    const { MAP_READ, STORAGE, COPY_SRC, COPY_DST } = GPUBufferUsage;
    const counted = gpu.createBuffer({ size: 4, usage: MAP_READ | COPY_DST });
    const columns = COLUMNS.map(() => gpu.createBuffer({ size: 4 * rows, usage: STORAGE | COPY_SRC | COPY_DST }));
    const commands = gpu.createCommandEncoder();
    const pass = commands.beginComputePass();
    pass.setPipeline(this.pipeline);
    pass.setBindGroup(0, this.group);
    pass.dispatchWorkgroups(Math.ceil(rows / GROUP));
    pass.end();
    commands.copyBufferToBuffer(this.count, 0, counted, 0, 4);
    columns.forEach((column, number) => commands.copyBufferToBuffer(this.result, 4 * rows * number, column, 0, 4 * rows));
    gpu.queue.submit([commands.finish()]);
    await counted.mapAsync(GPUMapMode.READ);
    const [length] = new Uint32Array(counted.getMappedRange());
    counted.destroy();
    const batch = this.device.batch({
      length,
      columns: COLUMNS.map(([name, format], number) => ({ name, format, nullable: false, buffers: [null, columns[number]] })),
    });
    try {
      return tableFromIPC(await batch.toIPC());
    } finally {
      batch.release();
    }
  }
}

const SVG = "http://www.w3.org/2000/svg";
function element(name, attributes, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

/** Draws magnitudes, bright ones above, over colours, blue ones on the left. */
function plot(colors, magnitudes) {
  const place = document.getElementById("plot");
  const [width, height] = [place.clientWidth, Math.min(420, Math.max(300, place.clientWidth * 0.62))];
  const [left, right, top, bottom] = [44, width - 8, 10, height - 42];
  const x = (color) => left + ((color + 0.5) / 2.5) * (right - left);
  const y = (magnitude) => top + ((magnitude + 4) / 20) * (bottom - top);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "Magnitude over colour" });
  for (let color = -0.5; color <= 2; color += 0.5) {
    svg.append(element("line", { class: "grid", x1: x(color), x2: x(color), y1: top, y2: bottom }));
    svg.append(element("text", { x: x(color), y: bottom + 16, "text-anchor": color === 2 ? "end" : "middle" }, color.toFixed(1).replace("-", "−")));
  }
  for (let magnitude = -4; magnitude <= 16; magnitude += 4) {
    svg.append(element("line", { class: "grid", x1: left, x2: right, y1: y(magnitude), y2: y(magnitude) }));
    svg.append(element("text", { x: left - 6, y: y(magnitude) + 4, "text-anchor": "end" }, String(magnitude).replace("-", "−")));
  }
  for (let row = 0; row < colors.length; row++) {
    svg.append(element("circle", { cx: x(colors[row]).toFixed(1), cy: y(magnitudes[row]).toFixed(1), r: 1.8 }));
  }
  svg.append(element("text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, "colour B−V (blue to red)"));
  const middle = (top + bottom) / 2;
  svg.append(element("text", { x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, "magnitude (bright above)"));
  place.replaceChildren(svg);
}

/** The nearest stars. The kind is a column that stayed on the host: rows carry their numbers. */
function list(found, kinds) {
  const distances = found.getChild("distance").toArray();
  const order = Array.from(distances.keys()).sort((one, other) => distances[one] - distances[other]);
  const lines = order.slice(0, 8).map((place) => {
    const { row, distance, magnitude, color } = found.get(place);
    const line = document.createElement("tr");
    for (const value of [kinds.get(row), distance.toFixed(1), magnitude.toFixed(2), color.toFixed(2)]) {
      const cell = line.insertCell();
      cell.textContent = String(value).replace("-", "−");
      if (line.cells.length > 1) cell.className = "number";
    }
    return line;
  });
  document.querySelector("tbody").replaceChildren(...lines);
}

async function start() {
  const adapter = await navigator.gpu?.requestAdapter();
  if (!adapter) throw new Error("This browser has no WebGPU, or no GPU that it may use.");
  const gpu = await adapter.requestDevice();
  const [device, file] = await Promise.all([open(gpu), fetch("stars.arrow").then((response) => response.arrayBuffer())]);
  const stars = await device.read(file, { columns: ["distance", "color", "magnitude"] });
  const [batch] = stars.batches;
  const onHost = tableFromIPC(new Uint8Array(file));
  const filter = new Filter(device, batch);
  show("rows", batch.length.toLocaleString("en"));
  show("adapter", adapter.info.description || [adapter.info.vendor, adapter.info.architecture].filter(Boolean).join(" ") || "unnamed");

  let found = null;
  const draw = () => plot(found.getChild("color").toArray(), found.getChild("magnitude").toArray());
  const update = async () => {
    const most = Number(limit.value);
    show("limit-text", `${most} pc`);
    const begin = performance.now();
    found = await filter.run(most);
    show("time", `${(performance.now() - begin).toFixed(1)} ms`);
    show("kept", found.numRows.toLocaleString("en"));
    draw();
    list(found, onHost.getChild("kind"));
    // What the host finds, for the tests.
    const nearEnough = (star) => star.distance !== null && star.distance <= most;
    window.shown = { gpu: found.numRows, host: onHost.toArray().filter(nearEnough).length };
  };
  await update();
  new ResizeObserver(draw).observe(document.getElementById("plot"));
  let isRunning = false;
  limit.addEventListener("input", async () => {
    show("limit-text", `${limit.value} pc`);
    if (isRunning) return;
    isRunning = true;
    for (let most = null; most !== limit.value; ) {
      most = limit.value;
      await update();
    }
    isRunning = false;
  });
}

start().then(
  () => (main.dataset.state = "done"),
  (error) => {
    main.dataset.state = "failed";
    const problem = document.getElementById("problem");
    problem.textContent = error.message;
    problem.hidden = false;
    console.error(error);
  },
);
