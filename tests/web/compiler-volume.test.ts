// Volumes through the module: voxel for voxel what the command line makes of them, and the readers' own errors.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { before, describe, test } from "node:test";
import { gunzipSync, gzipSync } from "node:zlib";
import { Compiler } from "../../web/src/compiler.js";
import { checkFileSize, gunzip, gzip, isGzip } from "../../web/src/gzip.js";
import {
  folderOf,
  hasAdapter,
  isError,
  loadCompiler,
  native,
  nativeError,
  shared,
  temporary,
  tinyModel,
  tinyScan,
  type Temporary,
} from "./support/compiler.js";
import { plainNifti, plainReport, plainTable } from "./support/provenance.js";

let compiler: Compiler;
let work: Temporary;
before(async () => {
  compiler = await loadCompiler();
  work = temporary();
});

const oblique = () => tinyScan({ dims: [40, 33, 21], spacing: [4.1, 5.3, 8.2], tilt: 0.2, type: "i16" });

// Files to try: some of our own making, and those of the test data.
function scans(): { name: string; bytes: Uint8Array }[] {
  const own = [
    { name: "ball.nii", bytes: tinyScan({ dims: [32, 32, 32], spacing: [6, 6, 6] }) },
    { name: "oblique.nii", bytes: oblique() },
    { name: "oblique.nii.gz", bytes: gzipSync(oblique()) },
  ];
  const wanted = ["volumes/chris_t1.nii.gz", "volumes/chris_t1_conformed.nii.gz", "nifti/FLAIR.nii.gz"]
    .concat(["nifti/example4d.nii.gz", "nifti/norm.mgz", "nifti/test.mgz", "nifti/shear.nii.gz"])
    .concat(["nifti/anatomical.nii", "nifti/example_nifti2.nii.gz", "nifti/functional.nii"])
    .concat(["nifti/orientations/ALI.nii.gz", "nifti/orientations/SPR.nii.gz"]);
  const found = wanted.map(shared).filter((path) => path !== undefined);
  return [...own, ...found.map((path) => ({ name: basename(path), bytes: readFileSync(path) }))];
}

describe("conform", { skip: native.missing }, () => {
  for (const { name, bytes } of scans())
    test(`${name}: as the command line`, async () => {
      const out = join(work.path, "conformed.nii");
      const file = work.write(name, bytes);
      const failure = nativeError(["conform", file, out, "-q"]);
      if (failure !== "") {
        await assert.rejects(async () => (await compiler.openScan(file, bytes)).conform(), oneOf(failure));
        return;
      }
      const scan = await compiler.openScan(file, bytes);
      const conformed = scan.conform();
      assert.ok(Buffer.from(conformed.nifti()).equals(readFileSync(out)), "differs from gyrus conform");
      assert.ok(conformed.info.conformed);
      assert.deepEqual(conformed.info.dims, [256, 256, 256]);
      scan.close();
      conformed.close();
    });
});

describe("results on the scan's grid", { skip: native.missing || hasAdapter.missing }, () => {
  const cases: [string, () => Uint8Array | undefined][] = [
    ["oblique.nii", oblique],
    ["chris_t1.nii.gz", () => contentOf(shared("volumes/chris_t1.nii.gz"))],
  ];
  for (const [name, bytes] of cases)
    test(`${name}: labels, mask, brain and report as the command line's`, async (t) => {
      const content = bytes();
      if (!content) return t.skip("no test data");
      const model = compiler.openModel(folderOf(tinyModel()), "model");
      const file = work.write(name, content);
      const path = (what: string) => join(work.path, what);
      const segment = (...more: string[]) => native(["segment", file, "-m", tinyModel(), "-q", ...more]);
      segment("-o", path("seen.nii"), "--space", "conformed");
      segment(
        ...["-o", path("labels.nii"), "--components", "largest", "--fill-holes", "--border", "1.5"],
        ...["--report", path("report.json"), "--brain", path("brain.nii"), "--mask", path("mask.nii")],
      );
      segment("-o", path("again.nii"), "--components", "largest", "--fill-holes", "--report", path("report.csv"));

      const scan = await compiler.openScan(file, content);
      const input = scan.conform();
      const network = compiler.openVolume("seen", readFileSync(path("seen.nii")));
      const labels = network.tensor("none"); // z fastest, as the network gives them
      const options = { largestComponent: true, fillHoles: true };
      const { seen, native: restored } = compiler.finish(scan, input, labels, options);
      const same = (what: string, ours: Uint8Array) =>
        assert.ok(plainNifti(ours).equals(plainNifti(readFileSync(path(what)))), `${what} differs`);
      same("labels.nii", restored.nifti({ labels: true }));
      const mask = restored.mask(1.5);
      same("mask.nii", mask.nifti({ labels: true }));
      same("brain.nii", scan.masked(mask).nifti());
      const report = compiler.report(scan, restored, model, file);
      assert.deepEqual(plainReport(report.json), plainReport(readFileSync(path("report.json"), "utf8")));
      assert.deepEqual(plainTable(report.csv), plainTable(readFileSync(path("report.csv"), "utf8")));
      assert.equal(report.labels.length, 2);
      assert.ok(report.totalMm3 > 0 && report.greyMm3 === null);
      const plain = compiler.labelsToVolume(input, labels);
      same("seen.nii", plain.nifti({ labels: true }));
      for (const volume of [scan, input, network, seen, restored, mask, plain, model]) volume.close();
    });
});

describe("tensors", () => {
  test("bytes stay bytes, z fastest; the rest becomes floats with its scaling", () => {
    const ball = compiler.openVolume("ball.nii", tinyScan({ dims: [5, 4, 3], spacing: [1, 1, 1] }));
    const tensor = ball.tensor("minmax");
    const file = ball.nifti().subarray(352);
    assert.deepEqual(tensor.shape, [1, 1, 5, 4, 3]);
    assert.equal(tensor.dtype, "u8");
    assert.equal(tensor.clamp, true);
    for (let x = 0; x < 5; ++x)
      for (let y = 0; y < 4; ++y)
        for (let z = 0; z < 3; ++z) assert.equal(tensor.data[(x * 4 + y) * 3 + z], file[x + 5 * (y + 4 * z)]);
    const low = Math.min(...file);
    const high = Math.max(...file);
    assert.ok(Math.abs(low * tensor.scale + tensor.shift) < 1e-6);
    assert.ok(Math.abs(high * tensor.scale + tensor.shift - 1) < 1e-6);
    const scaled = compiler.openVolume("oblique.nii", oblique()).tensor("none");
    assert.equal(scaled.dtype, "f32");
    assert.equal(scaled.clamp, false);
    assert.equal(scaled.scale, 1);
    assert.equal(scaled.data.length, 40 * 33 * 21 * 4);
    assert.throws(() => ball.tensor("most"), isError("invalid-input", /most/));
  });

  test("labels that do not fill the grid are refused", () => {
    const ball = compiler.openVolume("ball.nii", tinyScan({ dims: [5, 4, 3], spacing: [1, 1, 1] }));
    const labels = { dtype: "u8" as const, shape: [59], data: new Uint8Array(59) };
    assert.throws(() => compiler.labelsToVolume(ball, labels), isError("invalid-input", /does not fill/));
    const wide = new Uint8Array(Uint32Array.from({ length: 60 }, (_, i) => i * 9).buffer);
    const volume = compiler.labelsToVolume(ball, { dtype: "u32", shape: [60], data: wide });
    assert.equal(volume.info.type, "int16");
  });
});

describe("what is wrong with a file is said in one line", () => {
  const scan = () => tinyScan({ dims: [12, 12, 12], spacing: [1, 1, 1] });
  const noisy = () => Buffer.concat([scan().subarray(0, 352), noise(scan().subarray(352))]);
  const png = Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, ...new Array<number>(400).fill(7)]);
  const cases: [string, () => Uint8Array, string, RegExp][] = [
    ["a PNG", () => png, "invalid-input", /^\[scan\] is neither NIfTI nor MGH/],
    ["nothing", () => new Uint8Array(0), "invalid-input", /^\[scan\] is empty/],
    ["voxels cut off", () => scan().subarray(0, 1000), "invalid-input", /^\[scan\]/],
    ["a cut gzip", () => gzipSync(noisy()).subarray(0, 900), "io", /^\[scan\] the gzip data are damaged or cut off; get the file again$/],
    ["gzip's first bytes", () => Uint8Array.of(0x1f, 0x8b), "io", /damaged or cut off/],
    ["gzip's header alone", () => gzipSync(scan()).subarray(0, 12), "io", /damaged or cut off/],
    ["a wrong checksum", () => flipped(gzipSync(scan()), -8), "io", /damaged or cut off/],
    ["a flipped bit", () => flipped(gzipSync(noisy()), 700), "io", /damaged or cut off/],
    ["the header of a pair", () => pairHeader(scan()), "invalid-input",
      /^\[scan\] is the header of a pair; its voxels are in the \.img file beside it: make one \.nii file of both$/],
    ["a huge header", () => huge(scan()), "invalid-input", /promises \d+ MiB of voxels, more than the 1024/],
  ];
  for (const [what, bytes, code, message] of cases)
    test(what, async () => {
      await assert.rejects(compiler.openScan("scan", bytes()), isError(code, message));
    });

  test("several gzip members and padding are read", async () => {
    const bytes = scan();
    const parts = [bytes.subarray(0, 1100), bytes.subarray(1100, 1500), bytes.subarray(1500)];
    const packed = Buffer.concat([...parts.map((part) => gzipSync(part)), Buffer.alloc(512)]);
    const wanted = compiler.openVolume("scan", bytes).nifti();
    // Node's stream takes members; the module's own reader must as well, for browsers.
    for (const volume of [await compiler.openScan("scan", packed), compiler.openVolume("scan", packed)])
      assert.ok(Buffer.from(volume.nifti()).equals(wanted));
  });

  test("2 GB are refused before they are read", () => {
    const refused = isError("invalid-input", /^\[big.nii\] has 1907 MiB, more than the 1024 MiB/);
    assert.throws(() => checkFileSize("big.nii", 2e9), refused);
    checkFileSize("fine.nii", 1e9);
  });

  test("a 4-D file: the first volume, and a notice", () => {
    const bytes = tinyScan({ dims: [8, 8, 8], spacing: [1, 1, 1], frames: 3 });
    const { info } = compiler.openVolume("bold.nii", bytes);
    assert.deepEqual(info.dims, [8, 8, 8]);
    assert.match(info.notices.join(), /has 3 volumes; the first is used/);
  });

  test("after all that the module still works", () => {
    const volume = compiler.openVolume("scan", scan());
    assert.equal(volume.info.type, "uint8");
    assert.deepEqual(volume.info.spacing, [1, 1, 1]);
    volume.close();
  });
});

describe("gzip", () => {
  test("there and back", async () => {
    const bytes = noise(new Uint8Array(300_000));
    const packed = await gzip(bytes);
    assert.ok(isGzip(packed));
    assert.ok(gunzipSync(packed).equals(bytes));
    assert.ok(Buffer.from(await gunzip(packed, "x")).equals(bytes));
  });
  test("a trailer that lies about the size", async () => {
    const packed = gzipSync(noise(new Uint8Array(100_000)));
    packed.writeUInt32LE(17, packed.length - 4);
    await assert.rejects(gunzip(packed, "x"), isError("io", /damaged/));
  });
  test("more than the bound", async () => {
    await assert.rejects(
      gunzip(gzipSync(new Uint8Array(5 << 20)), "x", 1 << 20),
      isError("invalid-input", /^\[x\] inflates to more than the 1 MiB/),
    );
  });
});

test("memory is given back", () => {
  const bytes = tinyScan({ dims: [160, 160, 160], spacing: [1, 1, 1] });
  const before = compiler.memoryBytes;
  for (let i = 0; i < 100; ++i) compiler.openVolume("scan", bytes).close();
  assert.ok(compiler.memoryBytes - before < 64 << 20, `grew by ${compiler.memoryBytes - before} bytes`);
});

// The same line that the command line prints after "gyrus: ".
function oneOf(text: string): (error: unknown) => boolean {
  return (error) => {
    const { message } = error as Error;
    return text.includes(message) || assert.fail(`${message} is not in ${text}`);
  };
}

function contentOf(path: string | undefined): Uint8Array | undefined {
  return path === undefined ? undefined : readFileSync(path);
}

function noise(bytes: Uint8Array): Uint8Array {
  let state = 1;
  return bytes.map(() => (state = (state * 48271) % 2147483647) & 255);
}

function flipped(bytes: Buffer, at: number): Buffer {
  const index = at < 0 ? bytes.length + at : at;
  bytes[index]! ^= 64;
  return bytes;
}

function pairHeader(bytes: Uint8Array): Uint8Array {
  const header = bytes.slice(0, 348);
  header[345] = 0x69; // "ni1"
  return header;
}

function huge(bytes: Uint8Array): Uint8Array {
  new DataView(bytes.buffer).setInt16(42, 32000, true);
  new DataView(bytes.buffer).setInt16(44, 32000, true);
  return bytes;
}
