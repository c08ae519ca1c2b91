// Bundles the front end: dist/report.js, dist/report.css, and the script's hash for the page's content security policy.
import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";

// What is bundled hands down its notices and licences: each report is a copy of it.
const NOTICES = ["echarts/NOTICE", "echarts/LICENSE", "echarts/licenses/LICENSE-d3", "zrender/LICENSE"];

const notices = await Promise.all(
  NOTICES.map(async (name) => `${name}\n\n${await readFile(new URL(`./node_modules/${name}`, import.meta.url), "utf8")}`),
);
const about = "pgthaw's report. It draws with Apache ECharts (Apache-2.0) and zrender (BSD-3-Clause), whose notices and licences follow.";
const banner = [about, ...notices].join(`\n\n${"-".repeat(80)}\n\n`);
if (banner.includes("*/")) throw new Error("a licence ends the comment that it stands in");

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
  // They stand in the banner, whole and once.
  legalComments: "none",
  banner: { js: `/*\n${banner}\n*/` },
  logLevel: "warning",
});
const script = await readFile(new URL("report.js", output));
const hash = createHash("sha256").update(script).digest("base64");
await writeFile(new URL("report.js.sha256", output), hash);
