// The tests that run in the page. `run` returns what became of each.

import { Field, Float64, Int32, List, RecordBatchFileReader, Table, tableFromArrays, tableFromIPC, tableToIPC, vectorFromArray } from "apache-arrow";
import { ArrowDeviceError, BufferTable, carry, open } from "arrow-device";

function check(condition, text) {
  if (!condition) throw new Error(text);
}

function equal(found, expected, text) {
  const [one, other] = [found, expected].map(plain);
  if (one !== other) throw new Error(`${text}: ${one.slice(0, 300)} instead of ${other.slice(0, 300)}`);
}

const plain = (value) =>
  JSON.stringify(value, (_, part) => {
    if (typeof part === "bigint") return `${part}n`;
    if (ArrayBuffer.isView(part)) return Array.from(part);
    if (part instanceof Map) return [...part];
    return Number.isNaN(part) ? "NaN" : part;
  }) ?? "undefined";

/** The error that a promise is rejected with. */
async function rejection(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("the promise was kept");
}

async function refusal(promise, kind, text = "") {
  const error = await rejection(promise);
  check(error instanceof ArrowDeviceError, `not an error of the library: ${error.stack ?? error}`);
  equal(error.kind, kind, error.message);
  check(error.message.includes(text), error.message);
}

async function eventually(condition, text) {
  for (let turn = 0; turn < 500; turn++) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 4));
  }
  throw new Error(text());
}

async function gpuDevice() {
  const adapter = await navigator.gpu.requestAdapter();
  check(adapter, "the browser has no WebGPU adapter");
  return adapter.requestDevice();
}

/** A device of its own, whose GPUBuffers are counted. */
async function counted() {
  const gpu = await gpuDevice();
  const live = new Set();
  const create = gpu.createBuffer.bind(gpu);
  gpu.createBuffer = (description) => {
    const buffer = create(description);
    live.add(buffer);
    const destroy = buffer.destroy.bind(buffer);
    buffer.destroy = () => {
      check(live.delete(buffer), "a buffer is destroyed twice");
      destroy();
    };
    return buffer;
  };
  return { device: await open(gpu), gpu, live };
}

const rows = (bytes) => tableFromIPC(bytes).toArray().map((row) => row.toJSON());

function sample() {
  return new Table({
    x: vectorFromArray([1.5, null, -3, 4], new Float64()),
    name: vectorFromArray(["one", "two", null, "two"]),
    list: vectorFromArray([[1, 2], [], null, [3]], new List(Field.new("item", new Int32()))),
  });
}

/** A table of several batches of numbers. */
function chunks(count, length) {
  const chunk = (_, part) => tableFromArrays({ n: Int32Array.from({ length }, (_, row) => part * length + row) });
  return Array.from({ length: count }, chunk).reduce((one, other) => one.concat(other));
}

/** How many bytes of a stream the message with the schema has. */
const schemaLength = (bytes) => 8 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(4, true);

async function gpuBuffer(gpu, values) {
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const buffer = gpu.createBuffer({ size: values.byteLength, usage });
  gpu.queue.writeBuffer(buffer, 0, values);
  return buffer;
}

/** A module of `tests/modules`, as `carry` takes it. */
async function foreignModule(name, gpu, deviceId) {
  const { instance } = await WebAssembly.instantiateStreaming(fetch(`/modules/${name}.wasm`));
  const { exports } = instance;
  return {
    gpu,
    deviceId,
    memory: exports.memory,
    table: exports.__indirect_function_table,
    malloc: exports.my_malloc,
    free: exports.my_free,
    buffers: new BufferTable(),
    exports,
  };
}

function made(producer, buffer, length) {
  const structs = producer.exports.make(producer.buffers.add(buffer), length, producer.deviceId);
  return { module: producer, schema: producer.exports.schema_of(structs), array: producer.exports.array_of(structs) };
}

const NO_GOLDEN = "skipped: ARROW_DEVICE_GOLDEN names no folder with golden streams";
const goldenNames = async () => (await fetch("/golden.json")).json();
const goldenBytes = async (name) => new Uint8Array(await (await fetch(`/golden/${name}`)).arrayBuffer());

/** Every golden stream after its way to the GPU and back, by name, in base 64. */
export async function arrivals() {
  const { device } = await counted();
  const found = {};
  for (const name of await goldenNames()) {
    const table = await device.read(await goldenBytes(name));
    const bytes = await table.toIPC();
    found[name] = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
    table.release();
  }
  return found;
}

const TESTS = {
  async "a table of apache-arrow goes to the GPU and back"() {
    const { device } = await counted();
    const table = await device.read(tableToIPC(sample()));
    equal(table.length, 4, "rows");
    const [x, name, list] = table.batches[0].columns;
    equal([x.format, x.nullable, x.nullCount, x.buffers.length], ["g", true, 1, 2], "a column of numbers");
    check(x.buffers[1].buffer instanceof GPUBuffer && x.buffers[1].size >= 32, "the values are no GPUBuffer");
    equal([name.format, name.dictionary.format, list.children[0].length], ["i", "u", 3], "columns with others below");
    equal(rows(await table.toIPC()), rows(tableToIPC(sample())), "rows");
    table.release();
  },

  async "the golden streams that apache-arrow reads come back as they went"() {
    const names = await goldenNames();
    if (names.length === 0) return NO_GOLDEN;
    const { device, live } = await counted();
    const unread = [];
    for (const name of names) {
      const bytes = await goldenBytes(name);
      let expected;
      try {
        expected = rows(bytes);
      } catch (error) {
        check(error.message.includes("Unrecognized type"), `${name}: ${error.stack}`);
        unread.push(name);
        continue;
      }
      const table = await device.read(bytes);
      const back = await table.toIPC();
      equal(rows(back), expected, name);
      equal(tableFromIPC(back).schema.fields.map(String), tableFromIPC(bytes).schema.fields.map(String), name);
      table.release();
    }
    // What another implementation reads is compared by the test with pyarrow.
    equal(unread, ["generated_nested_large_offsets.stream"], "streams that were not read");
    await eventually(() => live.size === 0, () => `${live.size} buffers are left`);
  },

  async "a file is read and written"() {
    const { device } = await counted();
    const bytes = tableToIPC(sample(), "file");
    const table = await device.read(new Blob([bytes]).stream());
    const file = await table.toIPC({ format: "file" });
    equal(new TextDecoder().decode(file.subarray(0, 6)), "ARROW1", "magic");
    const reader = RecordBatchFileReader.from(file);
    equal([...reader].flatMap((batch) => batch.toArray().map((row) => row.toJSON())), rows(bytes), "rows");
    await refusal(table.toIPC({ format: "parquet" }), "InvalidArgument", "parquet");
  },

  async "only the columns that are asked for are on the GPU"() {
    const { device, live } = await counted();
    const table = await device.read(tableToIPC(tableFromArrays({ a: new Int32Array(4), b: new Int32Array(4), c: new Float64Array(4) })), {
      columns: ["c", "a"],
    });
    equal(table.batches[0].columns.map((column) => column.name), ["c", "a"], "columns");
    equal(live.size, 2, "buffers");
    await refusal(device.read(tableToIPC(sample()), { columns: ["x", "z"] }), "InvalidArgument", "`z`");
  },

  async "a kernel reads a column, and its result is a batch"() {
    const { device, gpu, live } = await counted();
    const numbers = Float32Array.from({ length: 1000 }, (_, index) => index / 4);
    const table = await device.read(tableToIPC(tableFromArrays({ numbers })));
    const code = `
      @group(0) @binding(0) var<storage, read> numbers: array<f32>;
      @group(0) @binding(1) var<storage, read_write> doubled: array<f32>;
      @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
        if (id.x < 1000) { doubled[id.x] = 2 * numbers[id.x]; }
      }`;
    const pipeline = gpu.createComputePipeline({ layout: "auto", compute: { module: gpu.createShaderModule({ code }) } });
    const doubled = gpu.createBuffer({ size: 4000, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC });
    const entries = [table.batches[0].column("numbers").buffers[1], { buffer: doubled }].map((resource, binding) => ({ binding, resource }));
    const commands = gpu.createCommandEncoder();
    const pass = commands.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, gpu.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
    pass.dispatchWorkgroups(16);
    pass.end();
    gpu.queue.submit([commands.finish()]);
    table.release();
    const batch = device.batch({ length: 1000, columns: [{ name: "doubled", format: "f", buffers: [null, doubled] }] });
    equal(rows(await batch.toIPC()).map((row) => row.doubled), Array.from(numbers, (number) => 2 * number), "numbers");
    batch.release();
    await eventually(() => live.size === 0, () => `${live.size} buffers are left`);
  },

  async "columns of any type are described by the columns of another batch"() {
    const { device, live } = await counted();
    const table = await device.read(tableToIPC(sample()));
    const [source] = table.batches;
    let released = 0;
    const batch = device.batch({ length: 4, columns: [...source.columns].reverse(), release: () => (released += 1) });
    const expected = rows(tableToIPC(sample())).map(({ x, name, list }) => ({ list, name, x }));
    equal(rows(await batch.toIPC()), expected, "rows");
    batch.release();
    await eventually(() => released > 0, () => "the buffers are not given back");
    equal(released, 1, "releases");
    table.release();
    await eventually(() => live.size === 0, () => `${live.size} buffers are left`);
  },

  async "a batch whose description is wrong is refused, and its buffers are given back"() {
    const { device, gpu } = await counted();
    const buffer = await gpuBuffer(gpu, new Int32Array(4));
    let released = 0;
    const describe = (column) => Promise.resolve().then(() => device.batch({ length: 4, columns: [column], release: () => (released += 1) }));
    await refusal(describe({ name: "n", format: "what", buffers: [null, buffer] }), "Malformed");
    await refusal(describe({ name: "n", format: "i", buffers: [buffer] }), "SchemaMismatch");
    await refusal(describe({ name: "n", format: "i", length: 3, buffers: [null, buffer] }), "Malformed");
    equal(released, 3, "releases");
  },

  async "an array goes from one module to another that knows nothing of the first"() {
    const gpu = await gpuDevice();
    const producer = await foreignModule("producer", gpu, 7);
    const consumer = await foreignModule("consumer", gpu, 123);
    const buffer = await gpuBuffer(gpu, Int32Array.of(5, 6, 7));
    const structs = carry(made(producer, buffer, 3), consumer);
    const number = consumer.exports.consume(structs.schema, structs.array);
    structs.free();
    check(consumer.buffers.get(number) === buffer, "another buffer arrived");
    equal(consumer.exports.column_length(), 3, "length");
    // The consumer has moved the column out and released the rest: the column keeps all of the producer's array.
    equal([producer.exports.released(), consumer.buffers.size], [0, 1], "released early");
    consumer.exports.finish();
    equal([producer.exports.released(), consumer.buffers.size, consumer.exports.live()], [2, 0, 0], "what is left");
  },

  async "an array that no consumer takes goes back to its module"() {
    const gpu = await gpuDevice();
    const producer = await foreignModule("producer", gpu, 1);
    const consumer = await foreignModule("consumer", gpu, 1);
    const structs = carry(made(producer, await gpuBuffer(gpu, new Int32Array(3)), 3), consumer);
    structs.free();
    equal([producer.exports.released(), consumer.buffers.size, consumer.exports.live()], [2, 0, 0], "what is left");
  },

  async "the library takes an array from a module, and gives one to a module"() {
    const { device, gpu, live } = await counted();
    const producer = await foreignModule("producer", gpu, 3);
    const buffer = await gpuBuffer(gpu, Int32Array.of(5, 6, 7));
    const batch = device.import(made(producer, buffer, 3));
    equal(rows(await batch.toIPC()), [{ n: 5 }, { n: 6 }, { n: 7 }], "rows");
    batch.release();
    await eventually(() => producer.exports.released() === 2, () => "the producer's array is not released");
    buffer.destroy();

    const consumer = await foreignModule("consumer", gpu, 4);
    const table = await device.read(tableToIPC(tableFromArrays({ n: Int32Array.of(1, 2) })));
    const own = table.batches[0].column("n").buffers[1].buffer;
    const structs = carry(table.batches[0].export(), consumer);
    table.release();
    check(consumer.buffers.get(consumer.exports.consume(structs.schema, structs.array)) === own, "another buffer arrived");
    structs.free();
    await gpu.queue.onSubmittedWorkDone();
    check(live.has(own), "the buffer is destroyed while the consumer has it");
    consumer.exports.finish();
    await eventually(() => live.size === 0, () => `${live.size} buffers are left`);
  },

  async "what a module must not hand over is refused, and stays the module's"() {
    const [gpu, other] = [await gpuDevice(), await gpuDevice()];
    const consumer = await foreignModule("consumer", gpu, 1);
    const attempt = async (text, change) => {
      const producer = await foreignModule("producer", gpu, 2);
      const structs = made(producer, await gpuBuffer(gpu, new Int32Array(3)), 3);
      const error = await rejection(Promise.resolve().then(() => carry({ ...structs, ...change(structs, producer) }, consumer)));
      check(error.message.includes(text), `${text}: ${error.stack}`);
      equal([producer.exports.released(), consumer.buffers.size, consumer.exports.live()], [0, 0, 0], text);
    };
    const set = (structs, at, value) => new DataView(structs.module.memory.buffer).setUint32(structs.array + at, value, true);
    await attempt("device", (structs) => set(structs, 64, 5));
    await attempt("no GPUBuffer of the number", (structs, producer) => producer.buffers.remove(1));
    await attempt("other children", (structs) => set(structs, 32, 0));
    await attempt("children", (structs) => set(structs, 36, 1));
    await attempt("event", (structs) => set(structs, 76, 8));
    await attempt("different GPUDevices", (structs, producer) => ({ module: { ...producer, gpu: other } }));
    await attempt("Offset is outside", (structs) => set(structs, 44, 0xfffffff0));
  },

  async "a schema whose nodes are reached on a million ways is refused"() {
    const memory = new WebAssembly.Memory({ initial: 1 });
    const view = new DataView(memory.buffer);
    const [levels, device, at] = [30, 512, (level) => 1024 + 64 * level];
    for (let level = 0; level < levels; level++) {
      // Both children of a node are the next node.
      const table = 8192 + 8 * level;
      view.setUint32(at(level), 256, true);
      view.setBigInt64(at(level) + 24, level + 1 < levels ? 2n : 0n, true);
      view.setUint32(at(level) + 32, table, true);
      view.setUint32(table, at(level + 1), true);
      view.setUint32(table + 4, at(level + 1), true);
      view.setUint32(at(level) + 40, 1, true);
    }
    view.setInt32(device + 72, 15, true);
    const module = { gpu: null, deviceId: 0, memory, buffers: new BufferTable() };
    try {
      carry({ module, schema: at(0), array: device }, module);
    } catch (error) {
      return check(error instanceof RangeError && error.message.includes("too many nodes"), String(error));
    }
    throw new Error("the schema was read");
  },

  async "a lost device rejects what is under way, and what comes later"() {
    const { device, gpu } = await counted();
    const bytes = tableToIPC(tableFromArrays({ n: new Int32Array(1 << 20) }));
    const table = await device.read(bytes);
    const under_way = table.toIPC();
    gpu.destroy();
    await refusal(under_way, "DeviceLost");
    await refusal(table.toIPC(), "DeviceLost");
    await refusal(device.read(bytes), "DeviceLost");
    table.release();
    const { device: another } = await counted();
    equal((await another.read(bytes)).length, 1 << 20, "rows on another device");
  },

  async "work that the GPU refuses rejects its own promise alone"() {
    const { device, gpu } = await counted();
    const table = await device.read(tableToIPC(sample()));
    const good = await device.read(tableToIPC(sample()));
    for (const { buffer } of table.batches[0].column("x").buffers) buffer.destroy();
    const [refused, done] = await Promise.allSettled([table.toIPC(), good.toIPC()]);
    equal([refused.reason?.kind, done.status], ["WorkFailed", "fulfilled"], refused.reason?.message ?? "");
    const create = gpu.createBuffer;
    gpu.createBuffer = (description) => create.call(gpu, { ...description, size: 2 ** 40 });
    const before = device.module.buffers.size;
    await refusal(device.read(tableToIPC(sample())), "WorkFailed");
    gpu.createBuffer = () => {
      throw new RangeError("no room");
    };
    await refusal(device.read(tableToIPC(sample())), "OutOfMemory");
    gpu.createBuffer = create;
    await eventually(() => device.module.buffers.size <= before, () => `${device.module.buffers.size} instead of ${before}`);
    equal((await device.read(tableToIPC(sample()))).length, 4, "rows after it");
  },

  async "hostile input is a rejected promise"() {
    const { device } = await counted();
    const inputs = [tableToIPC(sample()), tableToIPC(sample(), "file")];
    for (const name of ["lz4", "zstd"]) inputs.push(new Uint8Array(await (await fetch(`/tests/${name}.stream`)).arrayBuffer()));
    const expected = rows(inputs[0]);
    let [refused, taken, seed] = [0, 0, 1];
    const random = (below) => {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
      return (seed >>> 8) % below;
    };
    const attempt = async (bytes) => {
      try {
        const table = await device.read(bytes);
        await table.toIPC();
        table.release();
        taken += 1;
      } catch (error) {
        check(error instanceof ArrowDeviceError, `not an error of the library: ${error.stack ?? error}`);
        refused += 1;
      }
    };
    await attempt(new Uint8Array());
    for (const input of inputs) {
      for (let length = 0; length < input.length; length += 37) await attempt(input.slice(0, length));
      for (let turn = 0; turn < 250; turn++) {
        const bytes = input.slice();
        for (let flips = 1 + random(4); flips > 0; flips--) bytes[random(bytes.length)] = random(256);
        await attempt(bytes);
      }
    }
    check(refused > 100 && taken > 10, `${refused} refused, ${taken} taken`);
    equal(rows(await (await device.read(inputs[0])).toIPC()), expected, "rows after it");
  },

  async "the batches of a stream are on the GPU as their bytes arrive"() {
    const { device, live } = await counted();
    const bytes = tableToIPC(chunks(3, 1000));
    let controller;
    const source = new ReadableStream({ start: (given) => (controller = given) });
    const batches = device.batches(source);
    const half = bytes.length >> 1;
    for (let start = 0; start < half; start += 97) controller.enqueue(bytes.slice(start, Math.min(start + 97, half)));
    const first = (await batches.next()).value;
    equal([first.length, first.column("n").buffers[1].size, live.size], [1000, 4000, 1], "the first batch");
    const second = batches.next();
    controller.enqueue(bytes.slice(half));
    controller.close();
    const others = [(await second).value, (await batches.next()).value];
    equal(await batches.next(), { done: true }, "the end");
    equal(rows(await others[1].toIPC())[999], { n: 2999 }, "the last row");
    for (const batch of [first, ...others]) batch.release();
    await eventually(() => live.size === 0, () => `${live.size} buffers are left`);
  },

  async "a stream of any length needs the memory of two messages"() {
    const { device, live } = await counted();
    const COUNT = 128;
    const ROWS = 1 << 18;
    // A stream of many batches: the schema, and the message of one batch again and again.
    const whole = tableToIPC(chunks(1, ROWS));
    const schema = whole.subarray(0, schemaLength(whole));
    const message = whole.subarray(schema.length, whole.length - 8);
    check(message.length > 4 * ROWS, "the stream has other parts");
    let sent = -1;
    const source = new ReadableStream({
      pull(controller) {
        if (sent < 0) controller.enqueue(schema.slice());
        else if (sent < COUNT) controller.enqueue(message.slice());
        else controller.close();
        sent += 1;
      },
    }, { highWaterMark: 0 });
    const before = device.module.memory.buffer.byteLength;
    let most = 0;
    let count = 0;
    for await (const batch of device.batches(source)) {
      count += 1;
      check(sent <= count, `${sent} messages were asked for, and ${count} batches are there`);
      most = Math.max(most, live.size);
      batch.release();
    }
    equal(count, COUNT, "batches");
    const grown = (device.module.memory.buffer.byteLength - before) / message.length;
    check(grown < 16, `the memory of the module has grown by ${grown} messages`);
    check(most <= 4, `${most} buffers were there at once`);
  },

  async "what is read batch by batch is what is read at once"() {
    const names = await goldenNames();
    const { device, live } = await counted();
    const sources = [[tableToIPC(sample()), {}], [tableToIPC(sample(), "file"), {}], [tableToIPC(sample()), { columns: ["list", "x"] }]];
    for (const name of names) sources.push([await goldenBytes(name), {}]);
    for (const [bytes, options] of sources) {
      const table = await device.read(bytes, options);
      const found = [];
      for await (const batch of device.batches(new Blob([bytes]), options)) found.push(batch);
      equal(found.length, table.batches.length, "batches");
      for (const [index, batch] of found.entries()) {
        equal(await batch.toIPC(), await table.batches[index].toIPC(), `batch ${index}`);
        batch.release();
      }
      table.release();
    }
    await refusal(device.batches(tableToIPC(sample()), { columns: ["z"] }).next(), "InvalidArgument", "`z`");
    await refusal(device.batches(fetch("/nothing-here.arrow")).next(), "Driver", "404");
    await eventually(() => live.size === 0, () => `${live.size} buffers are left`);
  },

  async "a stream that ends in the middle of a message is refused, and one that nobody wants is cancelled"() {
    const { device, live } = await counted();
    const bytes = tableToIPC(chunks(2, 100));
    for (let length = 1; length < bytes.length - 8; length += 61) {
      const read = async () => {
        for await (const batch of device.batches(bytes.slice(0, length))) batch.release();
      };
      if (length === schemaLength(bytes)) continue;
      await refusal(read(), "Malformed", "the stream ends");
    }
    let cancelled = 0;
    const source = new ReadableStream({ pull: (controller) => controller.enqueue(bytes.slice(0, -8)), cancel: () => void (cancelled += 1) });
    for await (const batch of device.batches(source)) {
      batch.release();
      break;
    }
    equal(cancelled, 1, "cancelled");
    await eventually(() => live.size === 0, () => `${live.size} buffers are left`);
  },

  async "bodies that LZ4 and ZSTD have compressed are read"() {
    const { device } = await counted();
    const expected = Array.from({ length: 300 }, (_, row) => ({
      n: Math.floor(row / 3),
      text: row % 7 === 0 ? null : `row ${Math.floor(row / 5)}`,
    }));
    for (const name of ["lz4", "zstd"]) {
      const bytes = new Uint8Array(await (await fetch(`/tests/${name}.stream`)).arrayBuffer());
      const table = await device.read(bytes);
      equal(rows(await table.toIPC()), expected, name);
      table.release();
      const found = [];
      for await (const batch of device.batches(bytes)) {
        found.push(...rows(await batch.toIPC()));
        batch.release();
      }
      equal(found, expected, name);
    }
  },

  async "a request that failed rejects the promise"() {
    const { device } = await counted();
    await refusal(device.read(fetch("/nothing-here.arrow")), "Driver", "404");
  },

  async "a GPUDevice is opened once"() {
    const gpu = await gpuDevice();
    check((await open(gpu)) === (await open(gpu)), "two devices");
  },

  async "a released batch says so"() {
    const { device } = await counted();
    const table = await device.read(tableToIPC(sample()));
    const [batch] = table.batches;
    table.release();
    table.release();
    await refusal(batch.toIPC(), "Released");
    await refusal(table.toIPC(), "Released");
    await refusal(Promise.resolve().then(() => batch.columns), "Released");
  },

  async "copies of many batches go on side by side"() {
    const { device, live } = await counted();
    const sizes = [1, 3, 1000, 100_000];
    const tables = await Promise.all(sizes.map((size) => device.read(tableToIPC(tableFromArrays({ n: Int32Array.from({ length: size }, (_, n) => n) })))));
    const back = await Promise.all(tables.map((table) => table.toIPC()));
    equal(back.map((bytes) => tableFromIPC(bytes).getChild("n").get(0)), [0, 0, 0, 0], "first numbers");
    equal(back.map((bytes) => tableFromIPC(bytes).numRows), sizes, "rows");
    for (const table of tables) table.release();
    await eventually(() => live.size === 0, () => `${live.size} buffers are left`);
  },
};

export const names = Object.keys(TESTS);

export async function run(name) {
  try {
    return { skipped: (await TESTS[name]()) ?? null };
  } catch (error) {
    return { error: error?.stack ?? String(error) };
  }
}
