// Bundles the front end: dist/report.js, dist/report.css, and the script's hash for the page's content security policy.
import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const output = new URL("./dist/", import.meta.url);
await mkdir(output, { recursive: true });
await build({
  absWorkingDir: new URL(".", import.meta.url).pathname,
  entryPoints: { report: "src/main.ts" },
  outdir: output.pathname,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  banner: { js: "/* pgthaw's report; draws with Apache ECharts (Apache-2.0) and zrender (BSD-3-Clause) */" },
  logLevel: "warning",
});
const script = await readFile(new URL("report.js", output));
const hash = createHash("sha256").update(script).digest("base64");
await writeFile(new URL("report.js.sha256", output), hash);
