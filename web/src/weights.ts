// Buffers of weights that plans of one network have in common, each on the device once.

interface Shared {
  bytes: Uint8Array;
  buffer: GPUBuffer;
  users: number; // plans
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  const words = (a.byteOffset | b.byteOffset) % 4 === 0 ? a.length >> 2 : 0;
  const [x, y] = [a, b].map(({ buffer, byteOffset }) => new Uint32Array(buffer, words > 0 ? byteOffset : 0, words));
  for (let i = 0; i < words; ++i) if (x![i] !== y![i]) return false;
  for (let i = 4 * words; i < a.length; ++i) if (a[i] !== b[i]) return false;
  return true;
}

export class Weights {
  #shared: Shared[] = [];

  /** Of all its buffers. */
  get bytes(): number {
    return this.#shared.reduce((sum, { buffer }) => sum + buffer.size, 0);
  }

  /** The buffer with these contents, for one more plan; null where there is none. */
  take(bytes: Uint8Array): GPUBuffer | null {
    const found = this.#shared.find((each) => equal(each.bytes, bytes));
    if (!found) return null;
    ++found.users;
    return found.buffer;
  }

  /** A buffer that was filled with these contents, for one plan so far; it is freed here. */
  add(bytes: Uint8Array, buffer: GPUBuffer): void {
    this.#shared.push({ bytes, buffer, users: 1 });
  }

  /** A plan went. Its buffers stay until trim(): the next plan may want them. */
  release(buffers: GPUBuffer[]): void {
    for (const each of this.#shared) if (buffers.includes(each.buffer)) --each.users;
  }

  /** Frees what no plan uses. */
  trim(): void {
    for (const { buffer, users } of this.#shared) if (users <= 0) buffer.destroy();
    this.#shared = this.#shared.filter(({ users }) => users > 0);
  }

  destroy(): void {
    for (const each of this.#shared) each.users = 0;
    this.trim();
  }
}
