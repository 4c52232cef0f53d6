// Uses all that the package exports. The compiler checks it; nothing runs it.

import {
  ArrowDeviceError, Batch, BufferTable, Column, Device, ErrorKind, StructsIn, Table, WasmModule, carry, open,
} from "arrow-device";

export async function everything(gpu: GPUDevice, exports: { memory: WebAssembly.Memory; table: WebAssembly.Table }): Promise<void> {
  const device: Device = await open(gpu, { wasm: new URL("https://example.org/a.wasm"), usage: GPUBufferUsage.VERTEX });
  const table: Table = await device.read(fetch("data.arrow"), { columns: ["a", "b"] });
  await device.read(new Uint8Array(8));
  await device.read(new Blob([]).stream());
  for await (const one of device.batches(fetch("data.arrow"), { columns: ["a"] })) one.release();
  const batch: Batch | undefined = table.batches[0];
  if (batch === undefined) return;
  const column: Column = batch.column(0);
  const resource: GPUBindingResource | null | undefined = column.buffers[1];
  console.log(resource, column.dictionary?.children[0]?.format, batch.isReleased, table.length);
  const bytes: Uint8Array<ArrayBuffer> = await batch.toIPC({ format: "file" });
  const made: Batch = device.batch({
    length: 1,
    columns: [column, { name: "n", format: "i", nullable: false, buffers: [null, gpu.createBuffer({ size: 4, usage: 0 })] }],
    release: () => console.log(bytes.byteLength),
  });
  const module: WasmModule = {
    gpu,
    deviceId: 1,
    malloc: () => 0,
    free: () => {},
    buffers: new BufferTable(),
    ...exports,
  };
  const structs: StructsIn = carry(made.export(), module);
  device.import(structs);
  device.import({ module, schema: 8, array: 64 });
  structs.free();
  try {
    await table.toIPC();
  } catch (error) {
    const kind: ErrorKind | null = error instanceof ArrowDeviceError ? error.kind : null;
    console.log(kind);
  }
  // @ts-expect-error A device is opened by `open`.
  new Device();
  // @ts-expect-error There is no such format.
  await table.toIPC({ format: "parquet" });
  // @ts-expect-error A number is no source.
  await device.read(5);
}
