// open_page.mjs PAGE: opens a page of QC in Chromium, tries its filter and its keys, and prints as JSON how long it took
// until it could be used and what was on it. Needs web/node_modules.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(new URL("../../web/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const browser = await chromium.launch({
  executablePath: process.env.GYRUS_BROWSER ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
const errors = [];
page.on("pageerror", (error) => errors.push(String(error)));
const start = performance.now();
await page.goto(pathToFileURL(process.argv[2]).href, { waitUntil: "load" });
// A frame has been drawn, with the first picture.
await page.evaluate(() => document.querySelector("img")?.decode());
await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
const opened = (performance.now() - start) / 1000;
const cards = await page.locator("img").count();
const filterStart = performance.now();
const filter = page.locator("input[type=search], input[type=text], input:not([type])").first();
await filter.fill(process.argv[3] ?? "");
const visible = await page.evaluate(
  () => [...document.querySelectorAll("img")].filter((image) => image.offsetParent !== null).length);
const filtered = (performance.now() - filterStart) / 1000;
await browser.close();
console.log(JSON.stringify({ opened, cards, visible, filtered, errors }));
