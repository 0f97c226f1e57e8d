// Loads an ONNX file, runs it on a picture and draws what comes out. Serve this folder after `npm install gyrus-web`.

import { Program } from "gyrus-web";

const byId = (id) => document.getElementById(id);
const most = 1024; // pixels a side

const loading = fetch("edges.onnx").then(async (answer) => Program.load(await answer.arrayBuffer(), { name: "edges.onnx" }));

/** How steeply the picture in a canvas rises at each pixel: a Float32Array. */
export async function slopes({ data, width, height }) {
  const program = await loading; // a plan is made for each size of picture, and kept
  const grey = Float32Array.from({ length: width * height }, (_, i) =>
    (data[4 * i] + data[4 * i + 1] + data[4 * i + 2]) / 765);
  const image = { dtype: "f32", shape: [1, 1, height, width], data: new Uint8Array(grey.buffer) };
  const { outputs, wallMs } = await program.run({ image });
  byId("status").textContent = `${width}×${height} pixels in ${wallMs.toFixed(1)} ms`;
  return new Float32Array(outputs.slope.data.buffer);
}

async function show() {
  const { width, height } = byId("picture");
  const picture = byId("picture").getContext("2d", { willReadFrequently: true }).getImageData(0, 0, width, height);
  const found = await slopes(picture);
  Object.assign(byId("edges"), { width, height });
  const drawn = new ImageData(width, height);
  found.forEach((value, i) => drawn.data.set([255 * value, 255 * value, 255 * value, 255], 4 * i));
  byId("edges").getContext("2d").putImageData(drawn, 0, 0);
}

async function open(file) {
  const picture = await createImageBitmap(file);
  const shrink = Math.min(1, most / picture.width, most / picture.height);
  const [width, height] = [picture.width, picture.height].map((side) => Math.max(1, Math.round(side * shrink)));
  Object.assign(byId("picture"), { width, height });
  byId("picture").getContext("2d", { willReadFrequently: true }).drawImage(picture, 0, 0, width, height);
  await show();
}

function drawSome() {
  const context = byId("picture").getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#246";
  context.fillRect(0, 0, 256, 256);
  context.fillStyle = "#fc6";
  context.arc(110, 130, 70, 0, 7);
  context.fill();
  context.fillStyle = "#9cf";
  context.fillRect(150, 60, 80, 110);
}

const said = (error) => (byId("error").textContent = error.message); // GyrusError: one line
byId("file").addEventListener("change", (event) => open(event.target.files[0]).catch(said));
drawSome();
export const ready = show().catch(said);
