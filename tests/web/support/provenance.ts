// Files without what tells who made them, where and when.

// A NIfTI file with neither description nor header extensions.
export function plainNifti(bytes: Uint8Array): Buffer {
  const from = Buffer.from(bytes);
  const header = Buffer.from(from.subarray(0, 352));
  const offset = from.readFloatLE(108);
  header.writeFloatLE(352, 108);
  header.fill(0, 148, 228);
  header.fill(0, 348, 352);
  return Buffer.concat([header, from.subarray(offset)]);
}

// A report in JSON without "provenance", and without warnings: the command line adds those of reading and conforming.
export function plainReport(text: string): unknown {
  const report = JSON.parse(text);
  delete report.provenance;
  delete report.warnings;
  return report;
}

// A table without the columns that name the scan, the model and its weights.
export function plainTable(text: string): string[][] {
  const rows = text.trim().split("\n").map((line) => line.split(","));
  const kept = rows[0]!.map((name) => !["scan", "model", "weights_sha256"].includes(name));
  return rows.map((row) => row.filter((_, i) => kept[i]));
}
