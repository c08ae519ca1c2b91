// A run's first chart can be drawn without a browser, says what it shows, and is small enough for a README. The labelled screens are
// those of the guides.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { labelScreen } from "../labels.mjs";

const SECONDS = 20;
/** Seconds after which each is warm in this story. */
const WARM = { pgthaw: 6, "<cat>": 10, nothing: null };
const REPEATS = [1, 2, 3];

const trialOf = (strategy, repeat) => ({
  repeat,
  point: { strategy, script: "select-only", clients: 8 },
  start_state: { verdict: "cold" },
  warming: { warm_tps: WARM[strategy] === null ? null : 70_000 },
  samples: Array.from({ length: SECONDS }, (_, second) => ({ second: second + 1, transactions: second + 1 > (WARM[strategy] ?? SECONDS) ? 70_000 + repeat : 3000 })),
});
const strategies = Object.keys(WARM);
const pointOf = (strategy, number) => ({ number, label: strategy, measured_seconds: SECONDS, warm_after_seconds: { median: WARM[strategy] }, bound_seconds: { median: 5 } });
const run = {
  headline: "pgthaw was warm after 6.0 s.",
  points: strategies.map(pointOf),
  traffic: { deadline_seconds: null, warmers: [] },
  trials: REPEATS.flatMap((repeat) => strategies.map((strategy) => trialOf(strategy, repeat))),
  sweep: {
    started_at: "2026-11-22T10:48:51Z",
    pgthaw_version: "0.1.0",
    repeats: REPEATS.length,
    machine: { cores: 2, cpu_model: "a processor", kernel: "6.1.0" },
    server: { version: "15.18 (Debian 15.18-0+deb12u1)" },
    warmup: { database_bytes: 2 ** 30, disk: { riops: 3000, rbps: 131_072_000 } },
  },
};

test("the first chart is a picture of its own", () => {
  const directory = mkdtempSync(join(tmpdir(), "pgthaw-picture-test-"));
  try {
    const [stored, picture] = [join(directory, "run.json"), join(directory, "picture.svg")];
    writeFileSync(stored, JSON.stringify(run));
    execFileSync(process.execPath, [fileURLToPath(new URL("../picture.mjs", import.meta.url)), stored, picture]);
    const svg = readFileSync(picture, "utf8");
    assert.ok(svg.length < 60_000, `${svg.length} bytes`);
    for (const told of [
      "pgthaw: warm after 6.0 s", "&lt;cat&gt;: warm after 10.0 s", "nothing: not within 20 s", "bound 5.0 s", "steady 70 k", "transactions per second",
      "8 clients on a database of 1 GB, on a disk of 3000 reads/s and 131 MB/s", "9 of 9 trials began cold", "PostgreSQL 15.18", "measured on 2026-11-22",
    ]) assert.ok(svg.includes(told), told);
    assert.ok(!svg.includes("<cat>") && !svg.includes("NaN") && !svg.includes("undefined"));
  } finally {
    rmSync(directory, { recursive: true });
  }
});

const stored = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

test("the labelled map is the guide's", () => {
  const shown = stored("docs/guides/after-a-restart.md").split("\n");
  for (const line of stored("lab/picture/map.txt").trimEnd().split("\n")) assert.ok(shown.includes(line), line);
});

for (const name of ["map", "top"]) {
  test(`the labelled screen of ${name} is drawn`, () => {
    const screen = stored(`lab/picture/${name}.txt`);
    assert.equal(stored(`docs/pictures/${name}.svg`), labelScreen(screen, stored(`lab/picture/${name}-labels.txt`)), "make pictures");
  });
}

test("a label needs its words on the screen, and few words of its own", () => {
  assert.throws(() => labelScreen("a screen\n", "title\nelsewhere | meaning\n"), /not on the screen: elsewhere/);
  assert.throws(() => labelScreen("a screen\n", `title\nscreen | ${"word ".repeat(13)}\n`), /at most 12 words/);
});
