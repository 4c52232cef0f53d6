// arrow-device for pages: Arrow data to GPUBuffers and back. README.md has the interface by example, index.d.ts in full.

import { BufferTable, StructsIn, carry, place, room, withBuffers } from "./exchange.js";
import { Incoming } from "./incoming.js";
import { Page, PageQueue } from "./page.js";
import { NULLABLE, readArray, readSchema } from "./structs.js";

export { BufferTable, StructsIn, carry };

/** An error of the library. `kind` is its kind, as in Rust: `Malformed`, `OutOfMemory`, `DeviceLost` and others. */
export class ArrowDeviceError extends Error {
  constructor(kind, message, options) {
    super(message, options);
    this.name = "ArrowDeviceError";
    this.kind = kind;
  }
}

/** What the file format begins with. */
const MAGIC = new TextEncoder().encode("ARROW1");
/** The most bytes of a message: what the module has room for is less. */
const MOST_BYTES = 2 ** 31;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** One instance of the WebAssembly module, with its page. */
class Library {
  constructor(exports, page, buffers) {
    this.exports = exports;
    this.page = page;
    this.buffers = buffers;
    this.devices = 0;
  }

  static async load(source) {
    const buffers = new BufferTable();
    const page = new Page(buffers);
    const imports = { page: page.imports() };
    const instance = await instantiated(await source, imports);
    page.exports = instance.exports;
    return new Library(instance.exports, page, buffers);
  }

  /** The error behind an answer of a function of the module, `null` where there is none. Other calls forget the error. */
  failure(answer) {
    if (answer >= 0) return null;
    const [kind, ...text] = decoder.decode(this.output(this.exports.take_error())).split("\n");
    return new ArrowDeviceError(kind, text.join("\n"));
  }

  /** The answer of a function of the module, or its error. */
  checked(answer) {
    const failure = this.failure(answer);
    if (failure) throw failure;
    return answer;
  }

  /** Gives bytes to the module: the number of an input. */
  input(bytes) {
    return this.gather([bytes], bytes.byteLength);
  }

  /** Gives bytes to the module that are in several pieces. */
  gather(pieces, size) {
    const input = this.checked(this.exports.input(size));
    const room = new Uint8Array(this.exports.memory.buffer, this.exports.address(input) >>> 0, size);
    let end = 0;
    for (const piece of pieces) {
      room.set(piece, end);
      end += piece.byteLength;
    }
    return input;
  }

  /** Takes an output from the module. */
  output(output) {
    const [start, length] = [this.exports.address(output) >>> 0, this.exports.length(output) >>> 0];
    const bytes = new Uint8Array(this.exports.memory.buffer, start, length).slice();
    this.exports.release(output);
    return bytes;
  }
}

async function instantiated(source, imports) {
  if (source instanceof WebAssembly.Module) return WebAssembly.instantiate(source, imports);
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) {
    return (await WebAssembly.instantiate(source, imports)).instance;
  }
  const response = source instanceof Response ? source : await fetch(source);
  if (!response.ok) throw new ArrowDeviceError("DriverMissing", `${response.url}: ${response.status} ${response.statusText}`);
  return (await WebAssembly.instantiate(await response.arrayBuffer(), imports)).instance;
}

let library = null;
/** The devices that are open, by their GPUDevice. */
const open_devices = new WeakMap();

/** Opens a GPUDevice of the application. The same GPUDevice is opened once. */
export function open(gpu, options = {}) {
  const opened = open_devices.get(gpu);
  if (opened) return opened;
  library ??= Library.load(options.wasm ?? new URL("arrow_device.wasm", import.meta.url)).catch((error) => {
    library = null;
    throw error;
  });
  const device = library.then((library) => new Device(library, gpu, options));
  open_devices.set(gpu, device);
  device.catch(() => open_devices.delete(gpu));
  return device;
}

/** What a device and its batches have in common: the library, the queue, and the module as `carry` takes it. */
class Home {
  constructor(library, queue) {
    this.library = library;
    this.queue = queue;
    this.exports = library.exports;
    this.module = Object.freeze({
      gpu: queue.gpu,
      deviceId: queue.number,
      memory: library.exports.memory,
      table: library.exports.__indirect_function_table,
      malloc: library.exports.allocate,
      free: library.exports.deallocate,
      buffers: library.buffers,
    });
  }

  checkLost() {
    const { lost } = this.queue;
    if (lost) throw new ArrowDeviceError("DeviceLost", `the GPUDevice is lost: ${lost.message || lost.reason}`);
  }

  /** Throws what the GPU has refused of scoped calls. */
  async check(checks) {
    const error = await this.queue.refused(checks);
    this.checkLost();
    if (!error) return;
    const isLack = error instanceof GPUOutOfMemoryError || error instanceof RangeError;
    const kind = isLack ? "OutOfMemory" : "WorkFailed";
    throw new ArrowDeviceError(kind, error.message, { cause: error });
  }
}

/** A GPUDevice that Arrow data is moved to. `open` makes it. */
export class Device {
  #home;
  #object;

  constructor(library, gpu, { usage = 0 } = {}) {
    const number = ++library.devices;
    const { description, vendor, architecture } = gpu.adapterInfo ?? {};
    const name = description || [vendor, architecture].filter(Boolean).join(" ") || "a GPUDevice";
    const queue = new PageQueue(gpu, number, usage, library.exports);
    library.page.add(queue);
    const input = library.input(encoder.encode(name));
    this.#object = library.checked(library.exports.device_open(number, gpu.limits.maxBufferSize, input));
    queue.object = this.#object;
    this.#home = new Home(library, queue);
    this.gpu = gpu;
  }

  /** The library's own module, for `carry`. */
  get module() {
    return this.#home.module;
  }

  /** Reads an Arrow IPC stream or file onto the GPU. */
  async read(source, { columns } = {}) {
    const { library, exports } = this.#home;
    const bytes = await bytesOf(await source);
    this.#home.checkLost();
    const reader = this.#reader(bytes, columns);
    const batches = [];
    let schema = 0;
    try {
      schema = library.checked(exports.schema_of(reader));
      for (let batch; (batch = await this.#next(reader)); ) batches.push(batch);
      return new Table(this.#home, schema, batches);
    } catch (error) {
      for (const batch of batches) batch.release();
      exports.release(schema);
      throw error;
    } finally {
      exports.release(reader);
    }
  }

  /** Reads the batches of an Arrow IPC stream onto the GPU one after the other, as they arrive. */
  async *batches(source, { columns } = {}) {
    const { queue } = this.#home;
    const incoming = new Incoming(carried(await source), (text) => new ArrowDeviceError("Malformed", text));
    try {
      const head = await incoming.peek(MAGIC.length);
      if (head && MAGIC.every((byte, index) => head[index] === byte)) {
        yield* this.#batchesOfFile(await incoming.rest(), columns);
        return;
      }
      const { library, exports } = this.#home;
      const messages = library.checked(exports.messages_open(columns ? this.#names(columns) : 0));
      let marks = [0, 0];
      try {
        for (let header; (header = await incoming.header()); ) {
          // The module keeps the bytes of a message until the GPU has them. Those of two messages are kept at most.
          await queue.until(marks.shift());
          const batch = await this.#message(messages, header, incoming);
          marks.push(queue.latest());
          if (batch) yield batch;
        }
      } finally {
        exports.release(messages);
      }
    } finally {
      await incoming.close();
    }
  }

  /** The batches of a file, whose index is at its end. */
  async *#batchesOfFile(bytes, columns) {
    const reader = this.#reader(bytes, columns);
    try {
      for (let batch; (batch = await this.#next(reader)); ) yield batch;
    } finally {
      this.#home.exports.release(reader);
    }
  }

  /** The number of an input with the names of columns. */
  #names(columns) {
    return this.#home.library.input(encoder.encode(columns.map((name) => `${name}\0`).join("")));
  }

  /** The number of a reader of all bytes of a stream or a file. */
  #reader(bytes, columns) {
    const { library, exports } = this.#home;
    const input = library.input(bytes);
    return library.checked(exports.reader_open(input, columns ? this.#names(columns) : 0));
  }

  /** The next batch of a reader, `null` at the end. */
  async #next(reader) {
    const { exports, queue } = this.#home;
    const checks = [];
    return this.#arrived(queue.scoped(checks, () => exports.reader_next(reader, this.#object)), checks);
  }

  /** The batch of a message, `null` where the message has none. */
  async #message(messages, header, incoming) {
    const { library, exports, queue } = this.#home;
    const inputs = [library.input(header)];
    try {
      const size = library.checked(exports.messages_body(messages, inputs[0]));
      if (size > MOST_BYTES) throw new ArrowDeviceError("OutOfMemory", `a message of ${size} bytes`);
      inputs.push(library.gather(await incoming.take(size), size));
      this.#home.checkLost();
    } catch (error) {
      inputs.forEach((input) => exports.release(input));
      throw error;
    }
    const checks = [];
    return this.#arrived(queue.scoped(checks, () => exports.messages_next(messages, ...inputs, this.#object)), checks);
  }

  /** The batch of an answer of the module, once the GPU has refused nothing. */
  async #arrived(answer, checks) {
    const failure = this.#home.library.failure(answer);
    const batch = answer > 0 ? new Batch(this.#home, answer) : null;
    try {
      await this.#home.check(checks);
      if (failure) throw failure;
      return batch;
    } catch (error) {
      batch?.release();
      throw error;
    }
  }

  /** Makes a batch of GPUBuffers. */
  batch({ length, columns, release }) {
    this.#home.checkLost();
    const buffers = new Set();
    const children = columns.map((column) => columnTrees(column, length, buffers));
    const schema = { format: "+s", name: "", metadata: null, flags: 0, children: children.map(([schema]) => schema), dictionary: null };
    const array = {
      length, nullCount: 0, offset: 0, buffers: [null], sizes: null, children: children.map(([, array]) => array), dictionary: null,
    };
    const released = release ?? (() => buffers.forEach((buffer) => buffer.destroy()));
    return this.import(place(this.module, schema, array, released));
  }

  /** Takes a batch over from C structs: those of this library's module, or of another one, which are carried first. */
  import(structs) {
    this.#home.checkLost();
    const own = structs.module === this.module ? structs : carry(structs, this.module);
    try {
      return new Batch(this.#home, this.#home.library.checked(this.#home.exports.batch_import(own.schema, own.array)));
    } finally {
      own.free();
    }
  }
}

/** The bytes of whatever carries an Arrow stream, as they are or as a Response. */
function carried(source) {
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (!(source instanceof Response)) return new Response(source);
  if (!source.ok) throw new ArrowDeviceError("Driver", `${source.url}: ${source.status} ${source.statusText}`);
  return source;
}

async function bytesOf(source) {
  const found = carried(source);
  return found instanceof Response ? new Uint8Array(await found.arrayBuffer()) : found;
}

/** The trees of a column that the application describes. Its buffers are added to `all`. */
function columnTrees(column, rows, all) {
  const buffers = (column.buffers ?? []).map((entry) => {
    const buffer = entry && "buffer" in entry ? entry.buffer : (entry ?? null);
    if (entry?.offset) throw new TypeError(`column ${column.name}: a buffer of an array begins at the beginning of its GPUBuffer`);
    if (buffer) all.add(buffer);
    return buffer;
  });
  const length = column.length ?? rows;
  const children = (column.children ?? []).map((child) => columnTrees(child, length, all));
  const dictionary = column.dictionary ? columnTrees(column.dictionary, 0, all) : null;
  const isView = column.format === "vu" || column.format === "vz";
  const schema = {
    format: column.format,
    name: column.name ?? "",
    metadata: column.metadata ?? null,
    flags: column.flags ?? (column.nullable === false ? 0 : NULLABLE),
    children: children.map(([schema]) => schema),
    dictionary: dictionary?.[0] ?? null,
  };
  const array = {
    length,
    nullCount: column.nullCount ?? (buffers[0] ? -1 : 0),
    offset: column.offset ?? 0,
    buffers,
    sizes: isView ? (column.sizes ?? buffers.slice(2).map((buffer) => buffer?.size ?? 0)) : null,
    children: children.map(([, array]) => array),
    dictionary: dictionary?.[1] ?? null,
  };
  return [schema, array];
}

/** What a column of a batch consists of. Its buffers can be bound as they are. */
function columnOf(schema, array) {
  const binding = (buffer) => (buffer ? Object.freeze({ buffer, offset: 0, size: buffer.size }) : null);
  const below = array.children.map((child, index) => columnOf(schema.children[index], child));
  return Object.freeze({
    name: schema.name,
    format: schema.format,
    flags: schema.flags,
    nullable: (schema.flags & NULLABLE) !== 0,
    metadata: schema.metadata,
    length: array.length,
    nullCount: array.nullCount,
    offset: array.offset,
    buffers: Object.freeze(array.buffers.map(binding)),
    sizes: array.sizes,
    children: Object.freeze(below),
    dictionary: array.dictionary ? columnOf(schema.dictionary, array.dictionary) : null,
  });
}

/** A record batch whose columns are GPUBuffers. */
export class Batch {
  #home;
  #number;
  #columns;
  #length;

  constructor(home, number) {
    this.#home = home;
    this.#number = number;
    try {
      const structs = this.#structs();
      try {
        const { memory, buffers } = home.module;
        const schema = readSchema(memory, structs.schema);
        const array = withBuffers(readArray(memory, structs.array, schema), (number) => buffers.get(number));
        this.#length = array.length;
        this.#columns = columnOf(schema, array).children;
      } finally {
        structs.free();
      }
    } catch (error) {
      this.release();
      throw error;
    }
  }

  get length() {
    return this.#length;
  }

  get columns() {
    this.#checkReleased();
    return this.#columns;
  }

  /** The column of a name, or of a number. */
  column(name) {
    const found = typeof name === "number" ? this.columns[name] : this.columns.find((column) => column.name === name);
    if (!found) throw new ArrowDeviceError("InvalidArgument", `no column has the name ${name}`);
    return found;
  }

  /** Writes a share of the batch as C structs into the module's memory, for other modules. */
  export() {
    this.#checkReleased();
    return this.#structs();
  }

  /** The batch as an Arrow IPC stream, or as a file. */
  async toIPC(options) {
    this.#checkReleased();
    const { library, exports } = this.#home;
    const schema = library.checked(exports.schema_of(this.#number));
    try {
      return await written(this.#home, schema, [this], options);
    } finally {
      exports.release(schema);
    }
  }

  get isReleased() {
    return this.#number === 0;
  }

  /** Gives the buffers back: those that the library made are destroyed. */
  release() {
    const number = this.#number;
    this.#number = 0;
    if (number !== 0) this.#home.exports.release(number);
  }

  /** Begins to copy the batch to the host: the number of a copy, or -1. */
  static fetch(batch) {
    batch.#checkReleased();
    return batch.#home.exports.batch_fetch(batch.#number);
  }

  #checkReleased() {
    if (this.#number === 0) throw new ArrowDeviceError("Released", "the batch is released");
  }

  #structs() {
    const { library, exports, module } = this.#home;
    const structs = room(module);
    let schema = 0;
    try {
      schema = library.checked(exports.schema_of(this.#number));
      library.checked(exports.schema_export(schema, structs.schema));
      library.checked(exports.batch_export(this.#number, structs.array));
      return structs;
    } catch (error) {
      structs.free();
      throw error;
    } finally {
      exports.release(schema);
    }
  }
}

/** The batches of a stream or of a file. */
export class Table {
  #home;
  #schema;

  constructor(home, schema, batches) {
    this.#home = home;
    this.#schema = schema;
    this.batches = Object.freeze(batches);
  }

  get length() {
    return this.batches.reduce((sum, batch) => sum + batch.length, 0);
  }

  /** All batches as an Arrow IPC stream, or as a file. */
  async toIPC(options) {
    if (this.#schema === 0) throw new ArrowDeviceError("Released", "the table is released");
    return await written(this.#home, this.#schema, this.batches, options);
  }

  /** Releases all batches. */
  release() {
    for (const batch of this.batches) batch.release();
    this.#home.exports.release(this.#schema);
    this.#schema = 0;
  }
}

/** Copies batches to the host, one after the other, and writes them. */
async function written(home, schema, batches, { format = "stream" } = {}) {
  const { library, exports } = home;
  if (format !== "stream" && format !== "file") throw new ArrowDeviceError("InvalidArgument", `no format is called ${format}`);
  const writer = library.checked(exports.writer_open(schema, format === "file" ? 1 : 0));
  try {
    for (const batch of batches) {
      const copy = await fetched(home, batch);
      try {
        library.checked(exports.writer_write(writer, copy));
      } finally {
        exports.release(copy);
      }
    }
  } catch (error) {
    exports.release(writer);
    throw error;
  }
  return library.output(library.checked(exports.writer_finish(writer)));
}

/** Copies a batch to the host: the number of the object that has it there. */
async function fetched(home, batch) {
  const { library, exports, queue } = home;
  const checks = [];
  const copy = library.checked(queue.scoped(checks, () => Batch.fetch(batch)));
  try {
    let answer = 0;
    while ((answer = queue.scoped(checks, () => exports.copy_poll(copy))) === 0) await queue.progress();
    const failure = library.failure(answer);
    // What was refused arrives as zeros, and is the reason for errors about the data.
    await home.check(checks);
    if (failure) throw failure;
    return copy;
  } catch (error) {
    exports.release(copy);
    throw error;
  }
}
