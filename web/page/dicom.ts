// DICOM to NIfTI through dcm2niix, in a worker of its own. Loaded on the first folder.

interface Converter {
  init(): Promise<unknown>;
  input(files: File[]): { run(): Promise<File[]> };
  worker?: Worker | null;
}

// The largest volume that the converter makes of the files: localisers and derived series are smaller.
export async function convertDicom(files: File[]): Promise<{ file: File; others: number }> {
  // Its own files look for each other by address, so it stays beside the bundle, not in it.
  const address = new URL("dcm2niix/index.jpeg.js", document.baseURI).href;
  const { Dcm2niix } = (await import(address)) as { Dcm2niix: new () => Converter };
  const converter = new Dcm2niix();
  await converter.init();
  try {
    const made = await converter.input(files).run();
    const scans = made.filter((file) => /\.nii(\.gz)?$/i.test(file.name)).sort((a, b) => b.size - a.size);
    const file = scans[0];
    if (!file) throw new Error(`No volume could be made of these ${files.length} DICOM files.`);
    return { file, others: scans.length - 1 };
  } finally {
    converter.worker?.terminate();
  }
}
