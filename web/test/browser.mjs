// Headless Chromium for the tests of pages, and what they all look at.
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const LAPTOP = { width: 1280, height: 800 };
export const PHONE = { width: 390, height: 844 };
const QUIET = [
  "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

/** Runs `look` in a fresh profile, and prints what it has seen as JSON. */
export async function tellWhatIsSeen(look) {
  const program = [process.env.PGTHAW_CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
    .find((path) => path !== undefined && existsSync(path));
  if (program === undefined) throw new Error("no Chromium: apt-get install chromium, or name it in PGTHAW_CHROMIUM");
  const profile = await mkdtemp(join(tmpdir(), "pgthaw-chromium-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: program,
    headless: true,
    chromiumSandbox: process.getuid() !== 0,
    args: QUIET,
    viewport: LAPTOP,
    colorScheme: "light",
    acceptDownloads: true,
  });
  try {
    console.log(JSON.stringify(await look(await context.newPage())));
  } finally {
    await context.close();
    await rm(profile, { recursive: true, force: true });
  }
}

/** What the page complains of, and what it asks for beside those addresses that `isExpected` knows. */
export function listen(page, isExpected) {
  const [errors, requests] = [[], []];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("request", (request) => isExpected(request.url()) || requests.push(request.url()));
  return { errors, requests };
}

/** What the page shows once it is so. A chart is drawn when it is next on screen, which is soon and not at once. */
export async function once(page, look, isSo, patience = 120_000) {
  const deadline = Date.now() + patience;
  for (;;) {
    const seen = await page.evaluate(look);
    if (isSo(seen) || Date.now() > deadline) return seen;
    await page.waitForTimeout(50);
  }
}

/** How many charts there are, and how many are drawn. Runs in the page. */
export function drawnCharts() {
  const boxes = [...document.querySelectorAll(".chart")];
  return { all: boxes.length, drawn: boxes.filter((box) => box.querySelector("svg path") !== null).length };
}

export const isAll = ({ all, drawn }) => all > 0 && drawn === all;

/** Opens what is folded, as a reader does who wants all of it. */
export async function unfold(page) {
  await page.evaluate(() => {
    for (const box of document.querySelectorAll("details.fold, .trust details")) box.open = true;
  });
}

/** How a page of this width and theme comes out. */
export async function lookAt(page, name, screenshots) {
  const drawn = await once(page, drawnCharts, isAll);
  // A chart that is not on screen takes the page's new width a moment later.
  const seen = await once(page, layout, ({ overflow, clipped }) => overflow === 0 && clipped.length === 0);
  if (screenshots) await page.screenshot({ path: join(screenshots, `${name}.png`), fullPage: true });
  return { ...seen, drawn: drawn.drawn };
}

/** What is wider than the page. Runs in the page. */
export function layout() {
  const width = document.documentElement.clientWidth;
  const isInScroller = (element) => element.closest(".scroll, .heat-scroll, .table, .drawing, svg, .unseen") !== null;
  const wide = [...document.querySelectorAll("body *")].filter((element) => !isInScroller(element) && element.getBoundingClientRect().right > width + 1);
  return {
    background: getComputedStyle(document.body).backgroundColor,
    overflow: document.documentElement.scrollWidth - width,
    clipped: wide.map((element) => `${element.tagName}.${element.className}`),
  };
}

/**
 * Clicks a link or a button that a reader can see and reach. Playwright's own click waits until two animation frames show the
 * element at one place, and a browser on a crowded machine has drawn no frame for half a minute.
 */
export async function press(element) {
  await element.waitFor();
  await element.evaluate((box) => {
    box.scrollIntoView({ block: "center", inline: "center" });
    const { left, top, width, height } = box.getBoundingClientRect();
    const hit = document.elementFromPoint(left + width / 2, top + height / 2);
    if (box.disabled || !(box.contains(hit) || hit?.contains(box))) throw new Error(`${box.outerHTML} is disabled, or covered by ${hit?.outerHTML.slice(0, 200)}`);
    box.click();
  });
}

/** The files that the page makes: name and content. */
export async function download(page) {
  const files = {};
  for (const button of await page.locator("[data-file]").all()) {
    const [saved] = await Promise.all([page.waitForEvent("download"), press(button)]);
    const stream = await saved.createReadStream();
    let text = "";
    for await (const piece of stream) text += piece;
    files[saved.suggestedFilename()] = text;
  }
  return files;
}
