/// <reference types="@webgpu/types" />

/** The kind of an error. */
export type ErrorKind =
  | "InvalidArgument" | "Malformed" | "Released" | "SchemaMismatch" | "InvalidData" | "LimitExceeded" | "Unsupported"
  | "DriverMissing" | "DeviceMissing" | "NotReachable" | "NotReady" | "OutOfMemory" | "DeviceLost" | "Driver" | "TimedOut"
  | "Cancelled" | "Panicked" | "Peer" | "ShutDown" | "WorkFailed";

/** An error of the library, of the data, or of the GPU. `cause` is the GPU's own error, where there is one. */
export class ArrowDeviceError extends Error {
  readonly kind: ErrorKind;
  constructor(kind: ErrorKind, message: string, options?: ErrorOptions);
}

export interface OpenOptions {
  /** Where the WebAssembly module is: `arrow_device.wasm` beside `index.js` unless told. The first `open` of a page decides. */
  wasm?: string | URL | Response | Promise<Response> | BufferSource | WebAssembly.Module;
  /** Usages of the GPUBuffers besides `STORAGE`, `COPY_SRC` and `COPY_DST`, such as `GPUBufferUsage.VERTEX`. */
  usage?: GPUBufferUsageFlags;
}

/** Opens a GPUDevice of the application. A GPUDevice that is open already is opened once. */
export function open(gpu: GPUDevice, options?: OpenOptions): Promise<Device>;

/** What an Arrow IPC stream or file is read from. */
export type Source = ArrayBuffer | ArrayBufferView | Response | Blob | ReadableStream<Uint8Array>;

export interface ReadOptions {
  /** The names of the columns to read, in this order. All columns where this is missing. */
  columns?: readonly string[];
}

export interface WriteOptions {
  /** `stream`, unless told. */
  format?: "stream" | "file";
}

/** A GPUDevice that Arrow data is moved to. */
export class Device {
  private constructor();
  readonly gpu: GPUDevice;
  /** The library's own WebAssembly module, for `carry`. */
  readonly module: WasmModule;
  /**
   * Reads an Arrow IPC stream or file onto the GPU. The promise is kept when the GPU has taken all bytes without an
   * error. Work that is submitted then finds the data.
   */
  read(source: Source | Promise<Source>, options?: ReadOptions): Promise<Table>;
  /**
   * Reads the batches of an Arrow IPC stream onto the GPU one after the other, as their bytes arrive. The next batch is
   * read when the caller asks for it, and at most two messages are in the module's memory. Each batch is the caller's to
   * release. Leaving the loop cancels the source. A file, which has its index at the end, is collected first.
   */
  batches(source: Source | Promise<Source>, options?: ReadOptions): AsyncGenerator<Batch, void, undefined>;
  /** Makes a batch of GPUBuffers of this GPUDevice, without a copy. */
  batch(description: BatchDescription): Batch;
  /** Takes a batch over from C structs, of this library's module or of another module. */
  import(structs: Structs): Batch;
}

/** A GPUBuffer, or all of it as a binding. */
export type ColumnBuffer = GPUBuffer | Binding;

/** A column that the application has in GPUBuffers of its own. A `Column` is one. */
export interface ColumnDescription {
  name?: string;
  /** The format string of the Arrow C data interface, such as `f` for float32 or `u` for utf8. */
  format: string;
  /** `true`, unless told. */
  nullable?: boolean;
  /** `ArrowSchema.flags`; takes the place of `nullable`. */
  flags?: number;
  /** Encoded metadata, as `ArrowSchema.metadata` has it. */
  metadata?: Uint8Array | null;
  /** The length of the batch, unless told. Dictionaries, and what is below lists, need one. */
  length?: number;
  /** Unknown, unless told, where there is a validity bitmap; 0 where there is none. */
  nullCount?: number;
  /** 0, unless told. */
  offset?: number;
  /** The buffers of the type in Arrow's order, `null` for one that is not there. */
  buffers?: readonly (ColumnBuffer | null)[];
  /** The sizes of the data buffers of views; those of the GPUBuffers, unless told. */
  sizes?: readonly number[] | null;
  children?: readonly ColumnDescription[];
  dictionary?: ColumnDescription | null;
}

export interface BatchDescription {
  length: number;
  columns: readonly ColumnDescription[];
  /** Called once, when nothing uses the buffers any more. Without a function the GPUBuffers are destroyed then. */
  release?: () => void;
}

/** All of a GPUBuffer, as `GPUDevice.createBindGroup` takes it. */
export interface Binding {
  readonly buffer: GPUBuffer;
  readonly offset: 0;
  /** A multiple of 4, and at least the bytes of the data. */
  readonly size: number;
}

export interface Column {
  readonly name: string;
  readonly format: string;
  readonly flags: number;
  readonly nullable: boolean;
  readonly metadata: Uint8Array | null;
  readonly length: number;
  /** -1 where nobody has counted. */
  readonly nullCount: number;
  /** How many elements of the buffers come before the first one of the column. */
  readonly offset: number;
  readonly buffers: readonly (Binding | null)[];
  readonly sizes: readonly number[] | null;
  readonly children: readonly Column[];
  readonly dictionary: Column | null;
}

/** A record batch whose columns are GPUBuffers. */
export class Batch {
  private constructor();
  readonly length: number;
  readonly columns: readonly Column[];
  readonly isReleased: boolean;
  /** The column of a name, or of a number. */
  column(name: string | number): Column;
  /** Copies the batch to the host. The promise is kept when the bytes have arrived. */
  toIPC(options?: WriteOptions): Promise<Uint8Array<ArrayBuffer>>;
  /** Writes a share of the batch as C structs into the library's module. Call `free()` of the result at the end. */
  export(): StructsIn;
  /** Gives the buffers back. Those that the library made are destroyed; work that was submitted still uses them. */
  release(): void;
}

/** The batches of a stream or of a file. */
export class Table {
  private constructor();
  readonly batches: readonly Batch[];
  readonly length: number;
  /** Copies all batches to the host, one after the other. */
  toIPC(options?: WriteOptions): Promise<Uint8Array<ArrayBuffer>>;
  /** Releases all batches. */
  release(): void;
}

/** A WebAssembly module that produces or consumes the C structs of Arrow, with addresses of 32 bits. */
export interface WasmModule {
  readonly gpu: GPUDevice;
  /** The `device_id` by which the module knows this GPUDevice. */
  readonly deviceId: number;
  readonly memory: WebAssembly.Memory;
  /** The module's table of functions, which may grow (`--export-table --growable-table`). */
  readonly table: WebAssembly.Table;
  /** Allocates memory of the module, aligned to 8 bytes; 0 where there is none. */
  malloc(size: number): number;
  free(address: number): void;
  /** The numbers by which the module knows GPUBuffers. */
  readonly buffers: {
    get(number: number): GPUBuffer | undefined;
    add(buffer: GPUBuffer): number;
    remove(number: number): void;
  };
}

/** Where an `ArrowSchema` and an `ArrowDeviceArray` are in the memory of a module. */
export interface Structs {
  readonly module: WasmModule;
  readonly schema: number;
  readonly array: number;
  free?(): void;
}

/** Structs whose memory the library has allocated. */
export class StructsIn implements Structs {
  private constructor();
  readonly module: WasmModule;
  readonly schema: number;
  readonly array: number;
  /** Frees the memory of the structs, and releases what no consumer has taken over. */
  free(): void;
}

/**
 * Hands an array of one module to another one. Both structs of `from` are taken over. No byte on the GPU moves: the
 * second module gets numbers of its own for the same GPUBuffers. The first module's release callback is called when the
 * second module has released all of the array.
 */
export function carry(from: Structs, to: WasmModule): StructsIn;

/** A table of GPUBuffers, for a module that has none of its own. */
export class BufferTable {
  add(buffer: GPUBuffer): number;
  get(number: number): GPUBuffer | undefined;
  remove(number: number): void;
  readonly size: number;
}
