// Takes a picture of each kind of page, to look at them: in light, dark and as those see it who see fewer colours, on a wide
// screen and on a phone. npm run pictures -- DIRECTORY ADDRESS|FILE…; the address of pgthaw serve stands for all of its pages.
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { drawnCharts, layout, listen, once, PHONE, tellWhatIsSeen, unfold } from "./browser.mjs";

const WIDE = { width: 1400, height: 900 };
const SCHEMES = ["light", "dark"];

/** The newest studies, of every kind. */
const STUDIES = 4;
const SIGHTS = ["none", "deuteranopia", "protanopia"];

const [directory, ...places] = process.argv.slice(2);
if (places.length === 0) throw new Error("pictures.mjs DIRECTORY ADDRESS|FILE…");

await tellWhatIsSeen(async (page) => {
  const complaints = [];
  const { errors } = listen(page, () => true);
  for (const [name, address, isFirstScreen] of (await Promise.all(places.map((place) => pagesOf(page, place)))).flat()) {
    for (const size of [WIDE, PHONE]) {
      await page.setViewportSize(size);
      for (const scheme of SCHEMES) {
        // Charts that are not on screen keep the colours in which they were drawn until they are.
        await page.emulateMedia({ colorScheme: scheme });
        await show(page, address, isFirstScreen);
        for (const sight of SIGHTS) await picture(page, `${name}-${size.width}-${scheme}${sight === "none" ? "" : `-${sight}`}`, sight, !isFirstScreen);
        const { overflow, clipped } = await page.evaluate(layout);
        if (overflow > 0 || clipped.length > 0) complaints.push(`${name} at ${size.width}: ${overflow} px too wide; ${clipped.join(", ")}`);
      }
    }
  }
  // A page that is not there is one of them.
  return { complaints: [...new Set(complaints)], errors: errors.filter((one) => !one.includes("404")) };
});

async function show(page, address, isFirstScreen) {
  await page.goto("about:blank");
  await page.goto(address);
  await page.locator("h1").first().waitFor();
  if (!isFirstScreen) await unfold(page);
  // Pages without charts have all that they have.
  await once(page, drawnCharts, ({ all, drawn }) => all === drawn, 4_000);
}

async function picture(page, name, sight, fullPage) {
  const session = await page.context().newCDPSession(page);
  await session.send("Emulation.setEmulatedVisionDeficiency", { type: sight });
  await page.screenshot({ path: join(directory, `${name}.png`), fullPage });
  await session.detach();
}

/** Name, address, and whether its first screen alone is looked at. */
async function pagesOf(page, place) {
  if (!place.startsWith("http")) return [[basename(place, ".html"), pathToFileURL(resolve(place)).href, false]];
  const address = place.replace(/\/?$/, "/");
  const studies = await (await page.request.get(`${address}api/studies`)).json();
  const measured = studies.filter((one) => one.trials > 0).slice(0, STUDIES);
  const several = measured.find((one) => one.varied.length > 0)?.id;
  return [
    ["list", "", false], ["live", "#/live", false], ["missing", "nothing/is/here", false], ["unknown", "#/nothing", false],
    ...(several === undefined ? [] : [["compare", await comparisonOf(page, address, several), false]]),
    ...measured.flatMap(({ id }) => [[`study-first-${id}`, `#/study/${id}`, true], [`study-${id}`, `#/study/${id}`, false], [`trial-${id}`, `#/study/${id}/trial/0/1`, false]]),
  ].map(([name, path, isFirstScreen]) => [name, `${address}${path}`, isFirstScreen]);
}

/** The first axis of the study, its first value beside its last. */
async function comparisonOf(page, address, id) {
  const { sweep, points } = await (await page.request.get(`${address}api/studies/${id}`)).json();
  const [axis] = sweep.varied;
  if (axis === undefined) return "#/compare";
  return `#/compare?${new URLSearchParams({ a: id, "a.values": `${axis}=${points[0].values[0]}`, b: id, "b.values": `${axis}=${points.at(-1).values[0]}` })}`;
}
