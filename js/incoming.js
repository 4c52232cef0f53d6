// The bytes of a stream as they arrive, divided into the headers and bodies of the messages of Arrow IPC.
//
// A message is: four bytes of ones, the length of the header in four bytes, the header, and the body, whose length the
// header tells. Streams from before version 0.15 of Arrow have no ones. A stream ends with a header of no bytes, or ends.

const CONTINUATION = 0xffffffff;
/** The longest header of a message. The module takes no more. */
const MOST_HEADER = 2 ** 28;

export class Incoming {
  /** What gives more bytes, `null` once there are no more. */
  #reader = null;
  /** What has arrived and was not taken. */
  #pieces = [];
  #size = 0;
  #malformed;

  /** `carried` is all bytes, or a Response. `malformed` makes the error for a stream that ends too early. */
  constructor(carried, malformed) {
    this.#malformed = malformed;
    if (carried instanceof Response) this.#reader = carried.body?.getReader() ?? null;
    else this.#add(carried);
  }

  #add(piece) {
    if (piece.byteLength === 0) return;
    this.#pieces.push(piece);
    this.#size += piece.byteLength;
  }

  /** Waits until so many bytes have arrived. Whether they have. */
  async #has(size) {
    while (this.#size < size && this.#reader) {
      const { done, value } = await this.#reader.read();
      if (done) this.#reader = null;
      else this.#add(value);
    }
    return this.#size >= size;
  }

  /** The first bytes, which stay. `null` where there are fewer. */
  async peek(size) {
    if (!(await this.#has(size))) return null;
    const pieces = this.#cut(size);
    this.#pieces.unshift(...pieces);
    this.#size += size;
    return joined(pieces, size);
  }

  /** Takes so many bytes, in pieces. */
  async take(size) {
    if (await this.#has(size)) return this.#cut(size);
    throw this.#malformed(`the stream ends ${this.#size} bytes into a part of ${size} bytes of a message`);
  }

  #cut(size) {
    const taken = [];
    this.#size -= size;
    for (let left = size; left > 0; ) {
      const piece = this.#pieces.shift();
      taken.push(piece.byteLength > left ? piece.subarray(0, left) : piece);
      if (piece.byteLength > left) this.#pieces.unshift(piece.subarray(left));
      left -= taken.at(-1).byteLength;
    }
    return taken;
  }

  /** Takes the header of the next message, `null` at the end of the stream. */
  async header() {
    if (!(await this.#has(1))) return null;
    let size = await this.#word();
    if (size === CONTINUATION) size = await this.#word();
    if (size > MOST_HEADER) throw this.#malformed(`a header of ${size} bytes`);
    return size === 0 ? null : joined(await this.take(size), size);
  }

  async #word() {
    return new DataView(joined(await this.take(4), 4).buffer).getUint32(0, true);
  }

  /** Takes all bytes. */
  async rest() {
    await this.#has(Infinity);
    const size = this.#size;
    return joined(this.#cut(size), size);
  }

  /** Wants no more bytes. */
  async close() {
    const reader = this.#reader;
    this.#reader = null;
    // A source that failed cannot be cancelled.
    await reader?.cancel().catch(() => {});
  }
}

/** Pieces as one array of bytes of its own. */
function joined(pieces, size) {
  const bytes = new Uint8Array(size);
  let end = 0;
  for (const piece of pieces) {
    bytes.set(piece, end);
    end += piece.byteLength;
  }
  return bytes;
}
