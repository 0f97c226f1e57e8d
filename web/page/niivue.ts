// The viewer's library: a chunk of its own, with only what is used of it.
export { MULTIPLANAR_TYPE, Niivue, NVImage, SHOW_RENDER } from "@niivue/niivue";
