// What the WebAssembly module asks of the page: `module/src/page.rs` has the declarations.
//
// A page has one `Page` for one instance of the module. The functions of `imports` are called by the module, inside of
// calls of JavaScript to the module; nothing here calls the module back within such a call.

const UNIT = 4;
const BYTES_OF_REGION = 40;
const [UP, DOWN] = [0, 1];
/** How long a copy pauses where no work of the GPU is under way that would tell it to go on. */
const PAUSE_MS = 4;

const whole = (size) => Math.ceil(size / UNIT) * UNIT;

export class Page {
  /** The functions of the module. */
  exports = null;
  #devices = new Map();
  #buffers;

  /** `buffers` is the table of all GPUBuffers that the module knows. */
  constructor(buffers) {
    this.#buffers = buffers;
  }

  imports() {
    // What is thrown here would leave the module in the middle of a call. It is told by the promise of the call.
    const guarded = (device, call, otherwise) => {
      const queue = this.#devices.get(device);
      try {
        return call(queue);
      } catch (error) {
        queue?.note(error);
        return otherwise;
      }
    };
    return {
      create: (device, size) => guarded(device, (queue) => this.#create(queue, size), 0),
      destroy: (number) => this.#destroy(number >>> 0),
      size: (number) => this.#buffers.get(number >>> 0)?.size ?? -1,
      mark: (device) => this.#devices.get(device).mark(),
      latest: (device) => this.#devices.get(device).latest(),
      copy: (device, way, regions, count) => guarded(device, (queue) => this.#copy(queue, way, regions >>> 0, count)),
    };
  }

  add(queue) {
    this.#devices.set(queue.number, queue);
  }

  #create(queue, size) {
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST | queue.usage;
    return this.#buffers.add(queue.gpu.createBuffer({ label: "arrow-device", size, usage }));
  }

  #destroy(number) {
    this.#buffers.get(number)?.destroy();
    this.#buffers.remove(number);
  }

  #copy(queue, way, address, count) {
    const numbers = new BigUint64Array(this.exports.memory.buffer, address, (count * BYTES_OF_REGION) / 8);
    const regions = Array.from({ length: count }, (_, index) => {
      const [from, fromOffset, to, toOffset, size] = Array.from(numbers.subarray(5 * index, 5 * index + 5), Number);
      return { from, fromOffset, to, toOffset, size };
    });
    if (way === UP) return this.#write(queue, regions);
    const copies = (way === DOWN ? queue.parts(regions) : [regions]).map((part) => [part, way === DOWN && queue.staging(part)]);
    const commands = queue.gpu.createCommandEncoder();
    for (const [part, staging] of copies) {
      for (const { from, fromOffset, to, toOffset, size, staged } of part) {
        const [target, at] = staging ? [staging, staged] : [this.#buffers.get(to), toOffset];
        commands.copyBufferToBuffer(this.#buffers.get(from), fromOffset, target, at, whole(size));
      }
    }
    queue.gpu.queue.submit([commands.finish()]);
    for (const [part, staging] of copies) if (staging) queue.read(staging, part, () => this.exports.memory.buffer);
  }

  #write(queue, regions) {
    const memory = this.exports.memory.buffer;
    for (const { from, fromOffset, to, toOffset, size } of regions) {
      const [buffer, start, units] = [this.#buffers.get(to), from + fromOffset, size - (size % UNIT)];
      if (units > 0) queue.gpu.queue.writeBuffer(buffer, toOffset, memory, start, units);
      if (units < size) {
        const rest = new Uint8Array(UNIT);
        rest.set(new Uint8Array(memory, start + units, size - units));
        queue.gpu.queue.writeBuffer(buffer, toOffset + units, rest);
      }
    }
  }
}

/** The queue of one GPUDevice: which work the module has been told the end of. */
export class PageQueue {
  /** The number of the device among the module's objects. */
  object = 0;
  /** Why the device was lost, once it is. */
  lost = null;
  #exports;
  #made = 0;
  #passed = 0;
  #isFollowing = false;
  #hasUnmarked = true;
  #reads = new Set();
  #waiting = [];
  /** Where failures go of what is submitted at the moment. */
  #failures = null;

  constructor(gpu, number, usage, exports) {
    this.gpu = gpu;
    this.number = number;
    this.usage = usage;
    this.#exports = exports;
    this.#countSubmissions();
    gpu.lost.then((info) => {
      this.lost = info;
      exports.device_lost(this.object);
      this.#wake();
    });
  }

  /** Has the queue count what is submitted to it, by whomever. */
  #countSubmissions() {
    const { queue } = this.gpu;
    for (const name of ["submit", "writeBuffer", "writeTexture", "copyExternalImageToTexture"]) {
      const call = queue[name].bind(queue);
      queue[name] = (...values) => {
        this.#hasUnmarked = true;
        return call(...values);
      };
    }
  }

  /** The last mark if nothing was submitted since, or else a new one. */
  latest() {
    return this.#hasUnmarked ? this.mark() : this.#made;
  }

  /** Notes where the work stands, and follows it. */
  mark() {
    this.#hasUnmarked = false;
    this.#made += 1;
    const mark = this.#made;
    if (!this.#isFollowing) this.#follow();
    return mark;
  }

  async #follow() {
    this.#isFollowing = true;
    while (this.#passed < this.#made && !this.lost) {
      const mark = this.#made;
      await Promise.all([this.gpu.queue.onSubmittedWorkDone(), ...this.#reads]).catch(() => {});
      if (this.lost) break;
      this.#passed = mark;
      this.#exports.device_passed(this.object, mark);
      this.#wake();
    }
    this.#isFollowing = false;
  }

  #wake() {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** A promise that is kept when more of the work is done, or the device is lost. */
  progress() {
    if (this.lost) return Promise.resolve();
    if (!this.#isFollowing) return new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Waits until the GPU has passed a mark, or the device is lost. */
  async until(mark) {
    while (this.#passed < mark && !this.lost) await this.progress();
  }

  /** Divides regions into parts that fit into one staging buffer each. */
  parts(regions) {
    const parts = [];
    let used = Infinity;
    for (const region of regions) {
      if (used + whole(region.size) > this.gpu.limits.maxBufferSize) {
        parts.push([]);
        used = 0;
      }
      parts.at(-1).push({ ...region, staged: used });
      used += whole(region.size);
    }
    return parts;
  }

  /** A buffer that has room for a part, and that the host can read. */
  staging(part) {
    const { staged, size } = part.at(-1);
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    return this.gpu.createBuffer({ label: "arrow-device staging", size: staged + whole(size), usage });
  }

  /** Has the bytes of a part written to the module's memory once they are there. */
  read(staging, part, memory) {
    const failures = this.#failures;
    const arrival = staging
      .mapAsync(GPUMapMode.READ)
      .then(() => {
        // After the loss of the device the module has given the memory back.
        if (this.lost) return;
        const bytes = new Uint8Array(staging.getMappedRange());
        for (const { to, toOffset, size, staged } of part) {
          new Uint8Array(memory(), to + toOffset, size).set(bytes.subarray(staged, staged + size));
        }
      })
      .catch((error) => failures?.push(error))
      .finally(() => {
        staging.destroy();
        this.#reads.delete(arrival);
      });
    this.#reads.add(arrival);
  }

  /** Notes a failure of what is submitted at the moment. */
  note(error) {
    this.#failures?.push(error);
  }

  /**
   * Calls the module with an error scope around all that the call submits, and returns what the call returns. What the
   * GPU refuses is found by `refused`, with the same `checks`.
   */
  scoped(checks, call) {
    const failures = [];
    const filters = ["validation", "out-of-memory", "internal"];
    filters.forEach((filter) => this.gpu.pushErrorScope(filter));
    this.#failures = failures;
    try {
      return call();
    } finally {
      this.#failures = null;
      const errors = filters.map(() => this.gpu.popErrorScope().catch(() => null));
      checks.push({ failures, errors: Promise.all(errors) });
    }
  }

  /** The first error of scoped calls, `undefined` where there is none. All reads of the calls have ended. */
  async refused(checks) {
    for (const { failures, errors } of checks) {
      const found = [...(await errors), ...failures].find(Boolean);
      if (found) return found;
    }
  }
}
