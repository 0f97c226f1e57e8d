// DICOM to NIfTI through dcm2niix, in a worker of its own. Loaded on the first folder.

interface Converter {
  init(): Promise<unknown>;
  input(files: File[]): { f(name: string): { run(): Promise<File[]> } };
  worker?: Worker | null;
}

const kName = "%p_%s"; // protocol and number of the series

// The volumes that the converter makes of the files, the largest first: localisers and derived series are smaller.
export async function convertDicom(files: File[]): Promise<[File, ...File[]]> {
  // Its own files look for each other by address, so it stays beside the bundle, not in it.
  const address = new URL("dcm2niix/index.jpeg.js", document.baseURI).href;
  const { Dcm2niix } = (await import(address)) as { Dcm2niix: new () => Converter };
  const converter = new Dcm2niix();
  await converter.init();
  try {
    const made = await converter.input(files).f(kName).run();
    const scans = made.filter((file) => /\.nii(\.gz)?$/i.test(file.name)).sort((a, b) => b.size - a.size);
    const [first, ...others] = scans;
    if (!first) throw new Error(`No volume could be made of these ${files.length} DICOM files.`);
    return [first, ...others];
  } finally {
    converter.worker?.terminate();
  }
}
