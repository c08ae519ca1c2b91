// Labels a picture for newcomers: numbers on the picture, and below it the meaning of each number.
// A file of labels has a line for each: PLACE | MEANING. On a screen the place is some of its words, so that it still fits when the
// screen is printed anew; the first line is then the title. On a chart it is X,Y in pixels, and perhaps a second X,Y to point at.

/** 117 columns of letters of 12 pixels, the widest screen. */
const WIDTH = 900;
const MARGIN = 20;
const PAD = 8;
const LINE = 20;
/** Pixels above a labelled line, for the numbers. */
const BAND = 24;
const MOST_WORDS = 12;
const MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, Liberation Mono, DejaVu Sans Mono, monospace";
const SANS = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif";
/** As the light theme of web/src/palette.ts: a card of its own on a light or a dark page. No series of the chart is violet. */
const [PAPER, SCREEN, RULE, INK, VIOLET] = ["#ffffff", "#f4f5f3", "#dfe3e4", "#1b2126", "#5b29b1"];

const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

const parse = (lines) => lines.map((line) => {
  const [place, meaning] = line.split(" | ");
  if (meaning === undefined || meaning.split(" ").length > MOST_WORDS) throw new Error(`not PLACE | at most ${MOST_WORDS} words: ${line}`);
  return { place, meaning };
});

const number = (at, x, y) =>
  `<circle cx="${x}" cy="${y}" r="9" fill="${VIOLET}" stroke="${PAPER}"/><text x="${x}" y="${y + 4.3}" font-size="12" font-weight="700" fill="${PAPER}" text-anchor="middle">${at + 1}</text>`;

const pointer = (path) => `<path d="${path}" stroke="${VIOLET}" stroke-width="1.5" fill="none"/>`;

const list = (labels, top) => labels.map(({ meaning }, at) =>
  `${number(at, MARGIN + 9, top + 26 * at)}<text x="${MARGIN + 28}" y="${top + 26 * at + 5.5}" font-size="16" fill="${INK}">${escape(meaning)}</text>`);

/** A screen, exactly as printed, with its labels. */
export function labelScreen(screen, file) {
  const [title, ...rest] = file.trimEnd().split("\n");
  const [lines, labels] = [screen.trimEnd().split("\n"), parse(rest)];
  const spots = labels.map(({ place }) => {
    const line = lines.findIndex((text) => text.includes(place));
    if (line < 0) throw new Error(`not on the screen: ${place}`);
    return { line, column: lines[line].indexOf(place), columns: place.length };
  });
  const cell = Math.min(8.7, (WIDTH - 2 * MARGIN - 2 * PAD) / Math.max(...lines.map((line) => line.length)));
  const [left, top] = [MARGIN + PAD, 52];
  let y = top + 8;
  const baselines = lines.map((_, at) => (y += LINE + (spots.some(({ line }) => line === at) ? BAND : 0)) - 4);
  const bottom = y + 10;
  // textLength keeps columns below each other whatever font the reader has.
  const text = lines.map((line, at) =>
    `<text xml:space="preserve" x="${left}" y="${baselines[at]}" textLength="${(line.length * cell).toFixed(1)}"${/^[$#] /.test(line) ? ' font-weight="700"' : ""}>${escape(line)}</text>`);
  const marks = spots.map(({ line, column, columns }, at) => {
    const [from, to] = [column, column + columns].map((cells) => Math.round(left + cells * cell));
    const [middle, above] = [(from + to) / 2, baselines[line] - 15];
    return pointer(`M${from} ${above}H${to}M${middle} ${above}v-6`) + number(at, middle, above - 13);
  });
  const height = bottom + labels.length * 26 + 28;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="title" font-family="${SANS}">`,
    `<title id="title">${escape(title)}</title>`,
    `<rect x="0.5" y="0.5" width="${WIDTH - 1}" height="${height - 1}" rx="8" fill="${PAPER}" stroke="${RULE}"/>`,
    `<text x="${MARGIN}" y="34" font-size="17" font-weight="600" fill="${INK}">${escape(title)}</text>`,
    `<rect x="${MARGIN}" y="${top}" width="${WIDTH - 2 * MARGIN}" height="${bottom - top}" rx="6" fill="${SCREEN}" stroke="${RULE}"/>`,
    `<g font-family="${MONO}" font-size="${(cell / 0.6).toFixed(1)}" fill="${INK}">`, ...text, "</g>",
    ...marks, ...list(labels, bottom + 28), "</svg>\n",
  ].join("\n");
}

/** A chart as web/src/picture.ts draws it, taller by its labels. */
export function labelChart(svg, file) {
  const labels = parse(file.trimEnd().split("\n"));
  const height = Number(/viewBox="0 0 \d+ (\d+)"/.exec(svg)[1]);
  const taller = height + labels.length * 26 + 18;
  const marks = labels.map(({ place }, at) => {
    const [[x, y], to] = place.split(" ").map((point) => point.split(",").map(Number));
    return (to === undefined ? "" : pointer(`M${x} ${y}L${to}`)) + number(at, x, y);
  });
  return svg
    .replaceAll("font-size:11px", "font-size:12px")
    .replace(` ${height}"`, ` ${taller}"`).replace(`height="${height}"`, `height="${taller}"`).replace(`height="${height - 1}"`, `height="${taller - 1}"`)
    .replace(/<\/svg>\n$/, () => [...marks, ...list(labels, height + 16), "</svg>\n"].join("\n"));
}
