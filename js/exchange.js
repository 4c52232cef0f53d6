// The exchange of arrays between WebAssembly modules of a page.
//
// Each module has a memory of its own, and knows each GPUBuffer by a number of its own. An array goes from one module
// to another by its C structs: they are read in the memory of the first module, and written in the memory of the second
// one with that module's numbers. No byte on the GPU moves. When the second module has released every node of its
// structs, the first module's release callback is called.

import {
  DEVICE_ARRAY_SIZE, SCHEMA_SIZE, WEBGPU, allocated, moveArray, readArray, readDevice, readSchema, releaseArray,
  releaseSchema, writeArray, writeSchema,
} from "./structs.js";

/** A table of GPUBuffers, for a module that has none of its own. */
export class BufferTable {
  #buffers = new Map();
  #last = 0;

  /** Gives a buffer a number. Each call gives another number. */
  add(buffer) {
    this.#last += 1;
    this.#buffers.set(this.#last, buffer);
    return this.#last;
  }
  /** The buffer of a number, `undefined` where there is none. */
  get(number) {
    return this.#buffers.get(number);
  }
  /** Forgets a number. The buffer itself stays. */
  remove(number) {
    this.#buffers.delete(number);
  }
  /** How many numbers are given out. */
  get size() {
    return this.#buffers.size;
  }
}

/** The tree with each number of a buffer replaced by what `change` makes of it. */
export function withBuffers(tree, change) {
  return {
    ...tree,
    buffers: tree.buffers.map((buffer) => (buffer ? change(buffer) : 0)),
    children: tree.children.map((child) => withBuffers(child, change)),
    dictionary: tree.dictionary && withBuffers(tree.dictionary, change),
  };
}

/**
 * Writes trees of a schema and of an array, whose buffers are GPUBuffers, as C structs into a module.
 * `released` is called once, when the module has released the array.
 */
export function place(module, schema, array, released) {
  const numbers = [];
  const forget = () => numbers.forEach((number) => module.buffers.remove(number));
  const numbered = withBuffers(array, (buffer) => {
    const number = module.buffers.add(buffer);
    numbers.push(number);
    return number;
  });
  let structs = null;
  try {
    structs = room(module);
    writeSchema(module, structs.schema, schema);
    writeArray(module, structs.array, numbered, module.deviceId, () => {
      forget();
      released();
    });
    return structs;
  } catch (error) {
    forget();
    structs?.free();
    throw error;
  }
}

/** Room in a module for two structs, which are released. */
export function room(module) {
  const at = allocated(module, SCHEMA_SIZE + DEVICE_ARRAY_SIZE);
  new Uint8Array(module.memory.buffer).fill(0, at, at + SCHEMA_SIZE + DEVICE_ARRAY_SIZE);
  return new StructsIn(module, at, at + SCHEMA_SIZE);
}

/** C structs in the memory of a module: `schema` and `array` are their addresses. */
export class StructsIn {
  #memory;
  constructor(module, schema, array) {
    this.module = module;
    this.schema = schema;
    this.array = array;
    this.#memory = schema;
  }
  /** Frees the memory of both structs. What no consumer has taken over is released first. */
  free() {
    if (this.#memory === 0) return;
    releaseSchema(this.module, this.schema);
    releaseArray(this.module, this.array);
    this.module.free(this.#memory);
    this.#memory = 0;
  }
}

/**
 * Hands an array of one module to another one. Both structs of `from` are taken over: the schema is released, and the
 * array is released once the other module has released its own. Returns structs in the memory of `to`, which its
 * consumer takes over; `free()` gives back what is left of them.
 */
export function carry(from, to) {
  const { module } = from;
  const device = readDevice(module.memory, from.array);
  if (device.type !== WEBGPU || device.id !== module.deviceId) {
    throw new TypeError(`the array is on device ${device.id} of the type ${device.type}, and the module's GPUDevice is ${module.deviceId}`);
  }
  if (device.event !== 0) throw new TypeError("an array of a GPUDevice has no event");
  if (module.gpu !== to.gpu) throw new TypeError("the modules use different GPUDevices, which share no buffers");
  const schema = readSchema(module.memory, from.schema);
  const array = withBuffers(readArray(module.memory, from.array, schema), (number) => {
    const buffer = module.buffers.get(number);
    if (!buffer) throw new TypeError(`the module has no GPUBuffer of the number ${number}`);
    return buffer;
  });
  const moved = moveArray(module, from.array);
  let structs;
  const release = () => {
    releaseArray(module, moved);
    module.free(moved);
  };
  try {
    structs = place(to, schema, array, release);
  } catch (error) {
    release();
    throw error;
  }
  releaseSchema(module, from.schema);
  return structs;
}

