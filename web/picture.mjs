// Draws the first chart of a stored study, or a screen, as an SVG: node picture.mjs STUDY.json|SCREEN.txt PICTURE.svg [LABELS.txt]
// STUDY.json is what `pgthaw results show STUDY --json` prints, SCREEN.txt what a terminal showed; labels.mjs describes LABELS.txt.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { labelChart, labelScreen } from "./labels.mjs";

const [input, picture, labels] = process.argv.slice(2);
if (picture === undefined) throw new Error("picture.mjs STUDY.json|SCREEN.txt PICTURE.svg [LABELS.txt]");

const [drawn, file] = await Promise.all([input, labels].map((path) => (path === undefined ? undefined : readFile(path, "utf8"))));
if (input.endsWith(".txt")) {
  await writeFile(picture, labelScreen(drawn, file));
  process.exit();
}

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
  const run = JSON.parse(drawn);
  // With labels it stands for the study's page, which begins with the answer.
  await writeFile(picture, file === undefined ? drawPicture(run) : labelChart(drawPicture(run, run.headline.split(/(?<=;) (.*)/)), file));
} finally {
  await rm(directory, { recursive: true });
}
