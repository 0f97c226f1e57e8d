// gzip through the platform's own streams, bounded.
import { GyrusError } from "./errors.js";

// The most that a volume's file may hold, uncompressed. A larger one would not leave a page enough memory to work.
export const MAX_VOLUME_BYTES = 2 ** 30;

// deflate's densest code turns one bit into up to 258 bytes: no honest stream passes this ratio.
const MAX_RATIO = 1032;
const MIN_MEMBER = 18; // bytes: header and trailer

export function isGzip(bytes: Uint8Array): boolean {
  return bytes.length >= 2 && bytes[0] === 0x1f && bytes[1] === 0x8b;
}

// Throws where a file is too large to be opened; call it before reading one into memory.
export function checkFileSize(name: string, bytes: number, limit = MAX_VOLUME_BYTES): void {
  if (bytes > limit)
    throw new GyrusError(
      "invalid-input",
      `[${name}] has ${mib(bytes)} MiB, more than the ${mib(limit)} MiB that a page can open; use the command line`,
    );
}

// What the file inflates to. Throws where it is damaged, cut off, or inflates to more than `limit` bytes.
export async function gunzip(
  bytes: Uint8Array,
  name: string,
  limit = MAX_VOLUME_BYTES,
): Promise<Uint8Array<ArrayBuffer>> {
  let size = 0;
  const damaged = () =>
    new GyrusError("io", `[${name}] the gzip data are damaged or cut off; get the file again`);
  if (bytes.length < MIN_MEMBER) throw damaged();
  // The trailer holds the size (modulo 2³²): room for all of it at once, where it can be true.
  const promised = new DataView(bytes.buffer, bytes.byteOffset + bytes.length - 4, 4).getUint32(0, true);
  let out = new Uint8Array(Math.min(promised, limit, bytes.length * MAX_RATIO));
  const stream = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream("gzip"));
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read().catch(() => {
      throw damaged();
    });
    if (done) break;
    if (size + value.length > limit) {
      await reader.cancel().catch(() => undefined);
      const line = `[${name}] inflates to more than the ${mib(limit)} MiB that a page can open; use the command line`;
      throw new GyrusError("invalid-input", line);
    }
    if (size + value.length > out.length) out = grown(out, size, Math.min(limit, 2 * (size + value.length)));
    out.set(value, size);
    size += value.length;
  }
  return size === out.length ? out : out.slice(0, size);
}

// One gzip member.
export async function gzip(bytes: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function grown(bytes: Uint8Array, used: number, length: number): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(length);
  out.set(bytes.subarray(0, used));
  return out;
}

function mib(bytes: number): number {
  return Math.round(bytes / 2 ** 20);
}
