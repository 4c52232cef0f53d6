// The C structs of the Arrow C device data interface, in the memory of a WebAssembly module with addresses of 32 bits.
//
// `readSchema` and `readArray` make plain trees of what lies there. `writeSchema` and `writeArray` lay a tree out in
// one block of a module's memory. Each node of such a block can be moved out and released by itself, as the interface
// allows: the block is freed, and `released` called, when no node of the block is left.

/** The sizes of the structs, and where their members lie. */
export const SCHEMA_SIZE = 48;
export const ARRAY_SIZE = 64;
export const DEVICE_ARRAY_SIZE = 104;
const SCHEMA = { format: 0, name: 4, metadata: 8, flags: 16, count: 24, children: 32, dictionary: 36, release: 40, data: 44 };
const ARRAY = {
  length: 0, nullCount: 8, offset: 16, bufferCount: 24, count: 32, buffers: 40, children: 44, dictionary: 48, release: 52, data: 56,
};
const DEVICE = { id: 64, type: 72, event: 76 };
/** `ArrowSchema.flags` of a field that may have nulls. */
export const NULLABLE = 2;
/** The device type of WebGPU. */
export const WEBGPU = 15;

/** More levels than this are taken for a circle of pointers. */
const MAX_DEPTH = 64;
/** More nodes of a tree, or more buffers of one node, are refused. */
const MAX_COUNT = 1 << 20;
/** More bytes of texts and metadata of a tree are refused. */
const MAX_BYTES = 1 << 26;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function number(view, at, what) {
  const value = view.getBigInt64(at, true);
  if (value > BigInt(Number.MAX_SAFE_INTEGER) || value < -1n) throw new RangeError(`the ${what} of a struct is ${value}`);
  return Number(value);
}

function count(view, at, what) {
  const value = number(view, at, what);
  if (value < 0 || value > MAX_COUNT) throw new RangeError(`a struct has ${value} ${what}`);
  return value;
}

/** What a tree may still have. A node that is reached on many ways counts each time, because it is read each time. */
const limits = () => ({ nodes: MAX_COUNT, buffers: 4 * MAX_COUNT, bytes: MAX_BYTES });

function spend(left, what, count) {
  left[what] -= count;
  if (left[what] < 0) throw new RangeError(`structs have too many ${what}`);
  return count;
}

function text(memory, address, left) {
  if (address === 0) return "";
  const bytes = new Uint8Array(memory.buffer);
  const end = bytes.indexOf(0, address);
  if (end < 0) throw new RangeError("a text has no end");
  spend(left, "bytes", end - address);
  return decoder.decode(bytes.slice(address, end));
}

/** The bytes of encoded metadata, `null` where there is none. */
function metadata(memory, address, left) {
  if (address === 0) return null;
  const view = new DataView(memory.buffer);
  let end = address + 4;
  for (let parts = 2 * count32(view, address); parts > 0; parts--) end += 4 + count32(view, end);
  spend(left, "bytes", end - address);
  return new Uint8Array(memory.buffer).slice(address, end);
}

function count32(view, at) {
  const value = view.getInt32(at, true);
  if (value < 0 || value > view.byteLength) throw new RangeError(`metadata has ${value} pairs or bytes`);
  return value;
}

/** The addresses in a table of pointers. */
function pointers(view, table, count) {
  if (count > 0 && table === 0) throw new RangeError("a table of pointers is missing");
  return Array.from({ length: count }, (_, index) => view.getUint32(table + 4 * index, true));
}

function checkDepth(depth) {
  if (depth > MAX_DEPTH) throw new RangeError(`structs have more than ${MAX_DEPTH} levels`);
}

/** Reads the tree of an `ArrowSchema`. */
export function readSchema(memory, address, depth = 0, left = limits()) {
  checkDepth(depth);
  const view = new DataView(memory.buffer);
  const word = (at) => view.getUint32(address + at, true);
  if (address === 0 || word(SCHEMA.release) === 0) throw new RangeError("a schema is missing or released");
  const below = (child) => readSchema(memory, child, depth + 1, left);
  const children = spend(left, "nodes", count(view, address + SCHEMA.count, "children"));
  if (word(SCHEMA.dictionary) !== 0) spend(left, "nodes", 1);
  return {
    format: text(memory, word(SCHEMA.format), left),
    name: text(memory, word(SCHEMA.name), left),
    metadata: metadata(memory, word(SCHEMA.metadata), left),
    flags: Number(view.getBigInt64(address + SCHEMA.flags, true)),
    children: pointers(view, word(SCHEMA.children), children).map(below),
    dictionary: word(SCHEMA.dictionary) === 0 ? null : below(word(SCHEMA.dictionary)),
  };
}

/** Reads the tree of an `ArrowArray` with this schema. Buffers are numbers, 0 where there is none. */
export function readArray(memory, address, schema, depth = 0, left = limits()) {
  checkDepth(depth);
  const view = new DataView(memory.buffer);
  const word = (at) => view.getUint32(address + at, true);
  if (address === 0 || word(ARRAY.release) === 0) throw new RangeError("an array is missing or released");
  const children = pointers(view, word(ARRAY.children), count(view, address + ARRAY.count, "children"));
  const dictionary = word(ARRAY.dictionary);
  if (children.length !== schema.children.length || (dictionary === 0) !== (schema.dictionary === null)) {
    throw new RangeError(`an array of the format ${schema.format} has other children than its schema`);
  }
  const bufferCount = spend(left, "buffers", count(view, address + ARRAY.bufferCount, "buffers"));
  const buffers = pointers(view, word(ARRAY.buffers), bufferCount);
  return {
    length: number(view, address + ARRAY.length, "length"),
    nullCount: number(view, address + ARRAY.nullCount, "count of nulls"),
    offset: number(view, address + ARRAY.offset, "offset"),
    ...withoutSizes(view, schema, buffers),
    children: children.map((child, index) => readArray(memory, child, schema.children[index], depth + 1, left)),
    dictionary: dictionary === 0 ? null : readArray(memory, dictionary, schema.dictionary, depth + 1, left),
  };
}

/** Views have a last buffer with the sizes of their data buffers, which lies in the module's memory and not on a device. */
function withoutSizes(view, schema, buffers) {
  if (schema.format !== "vu" && schema.format !== "vz") return { buffers, sizes: null };
  const table = buffers.pop();
  const data = Math.max(buffers.length - 2, 0);
  if (data > 0 && !table) throw new RangeError("the sizes of the data buffers of views are missing");
  return { buffers, sizes: Array.from({ length: data }, (_, index) => number(view, table + 8 * index, "size of a buffer")) };
}

/** Which device a device array is on. */
export function readDevice(memory, address) {
  const view = new DataView(memory.buffer);
  return {
    type: view.getInt32(address + DEVICE.type, true),
    id: Number(view.getBigInt64(address + DEVICE.id, true)),
    event: view.getUint32(address + DEVICE.event, true),
  };
}

/** Calls the release callback of a struct of a module, unless it is released or was moved away. */
export function release(module, address, members) {
  const callback = new DataView(module.memory.buffer).getUint32(address + members.release, true);
  if (callback !== 0) module.table.get(callback)(address);
}
export const releaseSchema = (module, address) => release(module, address, SCHEMA);
export const releaseArray = (module, address) => release(module, address, ARRAY);

/** Moves a struct to memory of its own in the same module. */
export function moveArray(module, address) {
  const to = allocated(module, DEVICE_ARRAY_SIZE);
  new Uint8Array(module.memory.buffer).copyWithin(to, address, address + DEVICE_ARRAY_SIZE);
  new DataView(module.memory.buffer).setUint32(address + ARRAY.release, 0, true);
  return to;
}

/** Memory of a module, or an error where it has none. */
export function allocated(module, size) {
  const address = module.malloc(size) >>> 0;
  if (address === 0) throw new RangeError(`a module has no memory for ${size} bytes`);
  return address;
}

// ---- writing

// A module that imports a function of JavaScript and exports it again, so that tables of functions take it:
// (module (import "e" "f" (func (param i32))) (export "f" (func 0)))
const RELAY = new Uint8Array([
  0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 1, 0x7f, 0, 2, 7, 1, 1, 0x65, 1, 0x66, 0, 0, 7, 5, 1, 1, 0x66, 0, 0,
]);

/** The release callbacks that were put into the tables of modules, by memory. */
const installed = new WeakMap();
/** The blocks whose nodes are not all released, by the number in the private data of the nodes. */
const blocks = new Map();
let lastBlock = 0;

/** The places in the module's table of the callbacks for schemas and for arrays. */
function callbacks(module) {
  let found = installed.get(module.table);
  if (!found) {
    const relay = new WebAssembly.Module(RELAY);
    const add = (members) => {
      const { exports } = new WebAssembly.Instance(relay, { e: { f: (address) => onRelease(module, address >>> 0, members) } });
      const place = module.table.grow(1);
      module.table.set(place, exports.f);
      return place;
    };
    found = { schema: add(SCHEMA), array: add(ARRAY) };
    installed.set(module.table, found);
  }
  return found;
}

/** A consumer releases a node of a block: what is below goes first, unless it was moved out. */
function onRelease(module, address, members) {
  const view = () => new DataView(module.memory.buffer);
  const word = (at) => view().getUint32(address + at, true);
  const below = pointers(view(), word(members.children), Number(view().getBigInt64(address + members.count, true)));
  if (word(members.dictionary) !== 0) below.push(word(members.dictionary));
  for (const child of below) release(module, child, members);
  const block = word(members.data);
  view().setUint32(address + members.release, 0, true);
  const owner = blocks.get(block);
  owner.left -= 1;
  if (owner.left > 0) return;
  blocks.delete(block);
  module.free(owner.address);
  owner.released();
}

/** Hands out parts of a block, first to count what the block needs and then to fill it. */
class Layout {
  constructor(base) {
    this.base = base;
    this.used = 0;
    this.nodes = 0;
  }
  take(size) {
    const at = this.base + this.used;
    this.used += Math.ceil(size / 8) * 8;
    return at;
  }
}

function laidOut(module, place, members, top, released) {
  const needs = new Layout(0);
  place(needs, 0, () => {});
  const address = allocated(module, Math.max(needs.used, 8));
  const block = ++lastBlock;
  const callback = callbacks(module)[members === SCHEMA ? "schema" : "array"];
  const view = new DataView(module.memory.buffer);
  place(new Layout(address), top, (node, fill) => {
    fill(view);
    view.setUint32(node + members.release, callback, true);
    view.setUint32(node + members.data, block, true);
  });
  blocks.set(block, { left: needs.nodes + 1, address, released });
}

/** The table of the nodes below a node, and its dictionary. */
function placeBelow(layout, node, size, placeNode) {
  const table = layout.take(4 * node.children.length);
  const places = [...node.children, ...(node.dictionary ? [node.dictionary] : [])].map((child) => {
    const at = layout.take(size);
    layout.nodes += 1;
    placeNode(child, at);
    return at;
  });
  return { table, places };
}

function setBelow(view, node, at, members, { table, places }) {
  view.setBigInt64(at + members.count, BigInt(node.children.length), true);
  view.setUint32(at + members.children, table, true);
  node.children.forEach((_, index) => view.setUint32(table + 4 * index, places[index], true));
  view.setUint32(at + members.dictionary, node.dictionary ? places.at(-1) : 0, true);
}

/** Writes a tree as an `ArrowSchema` at an address of the module. */
export function writeSchema(module, address, tree) {
  const place = (layout, top, put) => {
    const placeNode = (node, at) => {
      const [format, name] = [node.format, node.name].map((text) => encoder.encode(`${text}\0`));
      const texts = [format, name, node.metadata ?? new Uint8Array()].map((bytes) => [layout.take(bytes.length), bytes]);
      const below = placeBelow(layout, node, SCHEMA_SIZE, placeNode);
      put(at, (view) => {
        for (const [to, bytes] of texts) new Uint8Array(view.buffer).set(bytes, to);
        view.setUint32(at + SCHEMA.format, texts[0][0], true);
        view.setUint32(at + SCHEMA.name, texts[1][0], true);
        view.setUint32(at + SCHEMA.metadata, node.metadata ? texts[2][0] : 0, true);
        view.setBigInt64(at + SCHEMA.flags, BigInt(node.flags), true);
        setBelow(view, node, at, SCHEMA, below);
      });
    };
    placeNode(tree, top);
  };
  laidOut(module, place, SCHEMA, address, () => {});
}

/** Writes a tree as an `ArrowDeviceArray` at an address of the module. `released` is called once, at the end. */
export function writeArray(module, address, tree, deviceId, released) {
  const place = (layout, top, put) => {
    const placeNode = (node, at) => {
      const sizes = node.sizes ? layout.take(8 * node.sizes.length + 8) : 0;
      const buffers = node.sizes ? [...node.buffers, sizes] : node.buffers;
      const table = layout.take(4 * buffers.length);
      const below = placeBelow(layout, node, ARRAY_SIZE, placeNode);
      put(at, (view) => {
        view.setBigInt64(at + ARRAY.length, BigInt(node.length), true);
        view.setBigInt64(at + ARRAY.nullCount, BigInt(node.nullCount), true);
        view.setBigInt64(at + ARRAY.offset, BigInt(node.offset), true);
        view.setBigInt64(at + ARRAY.bufferCount, BigInt(buffers.length), true);
        view.setUint32(at + ARRAY.buffers, table, true);
        buffers.forEach((buffer, index) => view.setUint32(table + 4 * index, buffer, true));
        node.sizes?.forEach((size, index) => view.setBigInt64(sizes + 8 * index, BigInt(size), true));
        setBelow(view, node, at, ARRAY, below);
      });
    };
    placeNode(tree, top);
  };
  laidOut(module, place, ARRAY, address, released);
  const view = new DataView(module.memory.buffer);
  new Uint8Array(module.memory.buffer).fill(0, address + ARRAY_SIZE, address + DEVICE_ARRAY_SIZE);
  view.setBigInt64(address + DEVICE.id, BigInt(deviceId), true);
  view.setInt32(address + DEVICE.type, WEBGPU, true);
}
