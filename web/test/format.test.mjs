// Numbers read as in the terminal and in PostgreSQL.
import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const folder = new URL("../", import.meta.url);
const bundled = await build({ absWorkingDir: folder.pathname, entryPoints: ["src/format.ts"], bundle: true, write: false, format: "esm" });
const { bandwidth, bytes, instant, parseShown, sizeSteps } = await import(`data:text/javascript;base64,${Buffer.from(bundled.outputFiles[0].text).toString("base64")}`);

test("a size is told as PostgreSQL tells it", () => {
  const told = [0, 999, 8192, 2 ** 28, 3 * 2 ** 29, 1_536_000_000, 2 ** 30 - 1, 100 * 2 ** 30].map(bytes);
  assert.deepEqual(told, ["0 bytes", "999 bytes", "8 kB", "256 MB", "1.5 GB", "1.43 GB", "1 GB", "100 GB"]);
});

test("a bandwidth is told as vendors tell it", () => {
  assert.deepEqual([125_000_000, 131_072_000, 999_600].map(bandwidth), ["125 MB/s", "131 MB/s", "1 MB/s"]);
});

test("a name is shown with what it hides", () => {
  const names = { "a\u001b[31m": ["b\u0007\u202e\u009b", "two\nlines", 7, null, "plain"] };
  assert.deepEqual(parseShown(JSON.stringify(names)), { "a\u001b[31m": ["b\\u{7}\\u{202e}\\u{9b}", "two\nlines", 7, null, "plain"] });
  assert.deepEqual(parseShown('{"a": "\\t"}'), { a: "\\u{9}" });
  assert.deepEqual(parseShown('["plain"]'), ["plain"]);
});

test("an axis of sizes has round sizes", () => {
  assert.deepEqual(sizeSteps(150 * 2 ** 20), { interval: 32 * 2 ** 20, max: 160 * 2 ** 20 });
  assert.equal(bytes(sizeSteps(150 * 2 ** 20).interval), "32 MB");
});

test("what was so from the start did not happen after 0.0 s", () => {
  assert.deepEqual([0, 3].map(instant), ["at once", "3.0 s"]);
});
