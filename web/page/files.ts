import { checkFileSize } from "../src/gzip.js";

// What was dropped or picked: a scan, a folder of DICOM, or neither.

export type Picked = { kind: "scan"; file: File } | { kind: "dicom"; files: File[] };

const kMostDicomBytes = 2 ** 31; // several series, of which one is opened; the converter holds them all
const kScan = /\.(nii|mgh|mgz)(\.gz)?$/i;
const kNoScan = /\.(png|jpe?g|gif|webp|tiff?|pdf|txt|csv|tsv|json|zip|html?|md|docx?|xlsx?|pth|bin|safetensors)$/i;

// DICOM files have "DICM" at byte 128; names say nothing.
async function isDicom(file: File): Promise<boolean> {
  const head = new Uint8Array(await file.slice(128, 132).arrayBuffer());
  return String.fromCharCode(...head) === "DICM";
}

// The bytes of a scan. Looks at the size first: a file that is too large would take the page's memory.
export async function readScan(file: File): Promise<ArrayBuffer> {
  checkSize(file);
  return file.arrayBuffer();
}

function checkSize(file: File): void {
  if (file.size === 0) throw new Error(`${file.name} is empty.`);
  checkFileSize(file.name, file.size);
}

export async function classify(files: File[]): Promise<Picked> {
  const seen = files.filter((file) => !file.name.startsWith("."));
  const first = seen[0];
  if (!first) throw new Error("There is no file in this folder.");
  const scans = seen.filter((file) => kScan.test(file.name));
  if (scans[0] && scans.length === 1) {
    checkSize(scans[0]);
    return { kind: "scan", file: scans[0] };
  }
  if (scans.length > 1) throw new Error(`These are ${scans.length} scans; this page takes one at a time.`);
  const dicom = [];
  for (const file of seen) if (!kNoScan.test(file.name) && (await isDicom(file))) dicom.push(file);
  if (dicom.length > 0) {
    checkFileSize("DICOM files", dicom.reduce((sum, file) => sum + file.size, 0), kMostDicomBytes);
    return { kind: "dicom", files: dicom };
  }
  if (seen.length === 1) {
    checkSize(first);
    if (kNoScan.test(first.name))
      throw new Error(`${first.name} is no scan; this page reads NIfTI (.nii, .nii.gz), MGH/MGZ and DICOM folders.`);
    return { kind: "scan", file: first }; // the reader looks at the content
  }
  throw new Error(`None of these ${seen.length} files is a scan; this page reads NIfTI, MGH/MGZ and DICOM.`);
}

// All files of a drop, folders included.
export async function droppedFiles(transfer: DataTransfer): Promise<File[]> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter((entry) => entry != null);
  if (entries.length === 0) return [...transfer.files];
  const files: File[] = [];
  for (const entry of entries) await walk(entry, files);
  return files;
}

async function walk(entry: FileSystemEntry, files: File[]): Promise<void> {
  if (entry.isFile) {
    files.push(await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject)));
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const inner of some) await walk(inner, files);
  }
}
