// The network of web/example/program: how steeply a picture rises at each pixel. A test writes it anew and compares.

import { node, onnxFile, tensor, value } from "./onnx.js";
import { fromNumbers } from "./tensors.js";

const sobel = [-1, 0, 1, -2, 0, 2, -1, 0, 1, -1, -2, -1, 0, 0, 0, 1, 2, 1].map((each) => each / 4);

/** slope = √(gx² + gy²) of image [1, 1, height, width], with Sobel's two kernels. */
export function edgesFile(): Uint8Array {
  return onnxFile({
    inputs: [value("image", "f32", [1, 1, "height", "width"])],
    outputs: [value("slope", "f32", [1, 1, "height", "width"])],
    initializers: [
      tensor("sobel", "f32", [2, 1, 3, 3], fromNumbers("f32", sobel)),
      tensor("channels", "i64", [1], fromNumbers("i64", [1])),
    ],
    nodes: [
      node("Conv", ["image", "sobel"], ["gradient"], { kernel_shape: [3, 3], pads: [1, 1, 1, 1] }),
      node("ReduceL2", ["gradient", "channels"], ["slope"], { keepdims: 1 }),
    ],
  });
}

/** The same by hand. */
export function slopes(image: ArrayLike<number>, height: number, width: number): number[] {
  const at = (y: number, x: number) => (y < 0 || x < 0 || y >= height || x >= width ? 0 : image[y * width + x]!);
  return Array.from({ length: height * width }, (_, i) => {
    const [y, x] = [Math.floor(i / width), i % width];
    const [gx, gy] = [0, 9].map((first) =>
      Array.from({ length: 9 }, (_, k) => sobel[first + k]! * at(y + Math.floor(k / 3) - 1, x + (k % 3) - 1))
        .reduce((sum, each) => sum + each, 0));
    return Math.hypot(gx!, gy!);
  });
}
