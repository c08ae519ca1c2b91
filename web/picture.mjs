// Draws the first chart of a stored study as an SVG: node picture.mjs STUDY.json PICTURE.svg
// STUDY.json is what `pgthaw results show STUDY --json` prints.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";

const [run, picture] = process.argv.slice(2);
if (picture === undefined) throw new Error("picture.mjs RUN.json PICTURE.svg");

// What the charts ask of the page that they usually stand in: its letters, which nothing here can measure, and whether it is dark.
globalThis.document = { body: {}, documentElement: { dataset: {} }, createElement: () => ({ getContext: () => null }) };
globalThis.getComputedStyle = () => ({ fontFamily: "system-ui, sans-serif" });
globalThis.matchMedia = () => ({ matches: false, addEventListener: () => undefined });
globalThis.addEventListener = () => undefined;

const directory = await mkdtemp(join(tmpdir(), "pgthaw-picture-"));
try {
  const bundle = join(directory, "picture.mjs");
  await build({
    absWorkingDir: new URL(".", import.meta.url).pathname,
    entryPoints: ["src/picture.ts"],
    outfile: bundle,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
  });
  const { drawPicture } = await import(pathToFileURL(bundle));
  await writeFile(picture, drawPicture(JSON.parse(await readFile(run, "utf8"))));
} finally {
  await rm(directory, { recursive: true });
}
