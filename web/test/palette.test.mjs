// Every reader tells the series apart: by colour with any kind of colour vision, and without colour by symbol and dashes.
// Dichromats' sight is simulated with the matrices of Machado, Oliveira and Fernandes (2009, doi:10.1109/TVCG.2009.113) at their
// full severity, as culori has them; differences are CIEDE2000, contrast is that of WCAG 2.2.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { differenceCiede2000, filterDeficiencyDeuter, filterDeficiencyProt, filterDeficiencyTrit, rgb, wcagContrast } from "culori";
import { build } from "esbuild";

/** WCAG 2.2, 1.4.11: graphical objects that are needed to understand the content. */
const LEAST_CONTRAST = 3;
/** Of two lines; 2.3 is about what is just seen side by side. */
const LEAST_DIFFERENCE = 10;
/** Of two areas of a stack, of which there are more: their symbols differ besides, or they are as far from each other as lines. */
const LEAST_DIFFERENCE_OF_WAITS = 6;

/** All that pgthaw has (crates/pgthaw-lab/src/bench/strategy/mod.rs). */
const STRATEGIES = [
  "nothing", "seqscan", "cat", "vmtouch", "pg_prewarm-read", "pg_prewarm-buffer", "pg_prewarm-prefetch", "autoprewarm", "pgfincore",
  "pgthaw", "pgthaw-gentle", "pgthaw-full-speed",
];

const VISIONS = { normal: rgb, protanopia: filterDeficiencyProt(1), deuteranopia: filterDeficiencyDeuter(1), tritanopia: filterDeficiencyTrit(1) };
const difference = differenceCiede2000();
const folder = new URL("../", import.meta.url);

const bundled = await build({ absWorkingDir: folder.pathname, entryPoints: ["src/palette.ts"], bundle: true, write: false, format: "esm" });
const palette = await import(`data:text/javascript;base64,${Buffer.from(bundled.outputFiles[0].text).toString("base64")}`);

const pairs = (all) => all.flatMap((one, index) => all.slice(0, index).map((other) => [other, one]));

/** The least difference of two colours over all kinds of vision, and of which. */
function leastDifference(one, other) {
  const all = Object.entries(VISIONS).map(([vision, see]) => ({ vision, difference: difference(see(rgb(one)), see(rgb(other))) }));
  return all.sort((a, b) => a.difference - b.difference)[0];
}

for (const paper of ["light", "dark"]) {
  const { paper: box, surround } = palette.theme(paper === "dark");
  const strategies = STRATEGIES.map((name) => ({ name, ...palette.strategyStyle(name, [], paper === "dark") }));

  test(`each series stands out from ${paper} paper`, () => {
    for (const hue of [...palette.SERIES, ...Object.values(palette.WAITS)]) {
      for (const background of [box, surround]) {
        const contrast = wcagContrast(hue[paper], background);
        assert.ok(contrast >= LEAST_CONTRAST, `${hue[paper]} on ${background}: ${contrast.toFixed(2)}`);
      }
    }
  });

  test(`each two series differ for every kind of colour vision on ${paper} paper`, () => {
    for (const [one, other] of pairs(palette.SERIES)) {
      const least = leastDifference(one[paper], other[paper]);
      assert.ok(least.difference >= LEAST_DIFFERENCE, `${one[paper]} ${other[paper]}: ${least.difference.toFixed(1)} with ${least.vision}`);
      assert.notEqual(one.symbol.path, other.symbol.path);
    }
  });

  test(`each two waits differ for every kind of colour vision on ${paper} paper`, () => {
    for (const [one, other] of pairs(Object.values(palette.WAITS))) {
      const least = leastDifference(one[paper], other[paper]);
      const needed = one.symbol === other.symbol ? LEAST_DIFFERENCE : LEAST_DIFFERENCE_OF_WAITS;
      assert.ok(least.difference >= needed, `${one[paper]} ${other[paper]}: ${least.difference.toFixed(1)} with ${least.vision}`);
    }
  });

  test(`no two strategies share both symbol and dashes on ${paper} paper`, () => {
    const unknown = ["one", "two", "three"];
    const others = unknown.map((name) => ({ name, ...palette.strategyStyle(name, unknown, paper === "dark") }));
    for (const [one, other] of pairs([...strategies, ...others])) {
      assert.notDeepEqual([one.symbol, one.dash], [other.symbol, other.dash], `${one.name} and ${other.name}`);
    }
  });

  test(`values beyond the hues differ by their dashes on ${paper} paper`, () => {
    const styles = Array.from({ length: 24 }, (_, place) => palette.seriesStyle(place, paper === "dark"));
    for (const [one, other] of pairs(styles)) assert.notDeepEqual([one.symbol, one.dash], [other.symbol, other.dash]);
  });
}

test("no other file has colours of series", async () => {
  const css = await readFile(new URL("src/report.css", folder), "utf8");
  const bars = [...css.matchAll(/--bar[\w-]*: light-dark\((#\w+), (#\w+)\)/g)].map(([, light, dark]) => [light, dark]);
  assert.equal(bars.length, 2);
  // A page without a script has them too.
  const rust = await readFile(new URL("../crates/command/src/document.rs", folder), "utf8");
  const drawn = [...rust.matchAll(/\("(#\w{6})", "(#\w{6})"\)/g)].map(([, light, dark]) => [light, dark]);
  assert.equal(drawn.length, 6);
  for (const [light, dark] of [...bars, ...drawn]) assert.ok(palette.SERIES.some((hue) => hue.light === light && hue.dark === dark), `${light} ${dark}`);
});
