// What the C++ side gives to the tests: programs of the build folder, and the public test data.

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

// The bundle of a test lies in build/web-tests.
export const sourceFolder = join(dirname(fileURLToPath(import.meta.url)), "../..");
const buildFolder = process.env.GYRUS_BUILD ?? join(sourceFolder, "build/release");

/** Whether to run what takes minutes. */
export const everything = process.env.GYRUS_TEST_FULL !== undefined;

/** A program of the build, "bin/gyrus" or "tests/op_plans"; throws where it was not built. */
export function program(name: string): string {
  const path = join(buildFolder, name);
  if (!existsSync(path)) throw new Error(`${path} is not there: build it, or set GYRUS_BUILD to the build folder`);
  return path;
}

/** The folder of the public test data, or null where it is absent. */
export function testData(): string | null {
  const path = process.env.GYRUS_TEST_DATA ?? join(sourceFolder, "../shared/data");
  return existsSync(join(path, "README.md")) ? path : null;
}

/** A folder for what tests write. */
export const outFolder = dirname(fileURLToPath(import.meta.url));
