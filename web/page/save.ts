// Files for the person.

export function download(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser may still be writing
}

// Compressed by the browser, off the main thread.
export async function gzip(bytes: Uint8Array): Promise<Blob> {
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Response(stream).blob();
}

// "head.nii.gz" → "head"
export function stem(name: string): string {
  return name.replace(/\.(nii\.gz|nii|mgh\.gz|mgh|mgz|gz)$/i, "") || "scan";
}
